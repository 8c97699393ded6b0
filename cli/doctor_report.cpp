#include "cli/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "alloc/bytes.h"
#include "cli/document_text.h"
#include "cli/optional_json.h"

namespace penstock::cli {
namespace {

using nlohmann::ordered_json;

ordered_json engine_json(const EngineCandidate& engine) {
  return {{"name", engine.name},
          {"usable", engine.usable},
          {"reason", or_null(engine.reason)},
          {"features", engine.features}};
}

ordered_json path_json(const PathCheckup& path) {
  return {{"path", path.path},
          {"usable", path.usable},
          {"problem", or_null(path.problem)},
          {"file_system", or_null(path.file_system)},
          {"device", or_null(path.device)},
          {"direct_io",
           {{"supported", path.direct.supported},
            {"memory_alignment", path.direct.memory_alignment},
            {"offset_alignment", path.direct.offset_alignment},
            {"reason", or_null(path.direct.reason)}}},
          {"free_bytes", path.free_bytes},
          {"total_bytes", path.total_bytes},
          {"quota_bytes", or_null(path.quota_bytes)},
          {"quota_used_bytes", or_null(path.quota_used_bytes)},
          {"rotating", path.is_rotating}};
}

ordered_json numa_json(const std::vector<NumaNode>& nodes) {
  ordered_json list = ordered_json::array();
  for (const NumaNode& node : nodes) {
    list.push_back({{"node", node.number}, {"bytes", node.bytes}, {"cpus", node.cpus}});
  }
  return list;
}

ordered_json runtime_json(const DeviceRuntime& runtime) {
  ordered_json devices = ordered_json::array();
  for (const DeviceFacts& device : runtime.devices) {
    devices.push_back({{"number", device.number},
                       {"name", device.name},
                       {"memory_bytes", device.memory_bytes},
                       {"pci_address", or_null(device.pci_address)},
                       {"numa_node", device.numa_node ? ordered_json(*device.numa_node)
                                                      : ordered_json(nullptr)}});
  }
  return {{"name", runtime.name},
          {"usable", !runtime.devices.empty()},
          {"reason", or_null(runtime.reason)},
          {"devices", std::move(devices)}};
}

std::vector<std::string> runtime_lines(const DeviceRuntime& runtime) {
  if (runtime.devices.empty()) {
    return {fmt::format("{}: no, {}", runtime.name, runtime.reason)};
  }
  std::vector<std::string> lines;
  lines.reserve(runtime.devices.size());
  for (const DeviceFacts& device : runtime.devices) {
    lines.push_back(fmt::format(
        "{}:{}: {}, {}{}", runtime.name, device.number, device.name,
        format_bytes(device.memory_bytes),
        device.numa_node ? fmt::format(", nearest to node {}", *device.numa_node) : std::string()));
  }
  return lines;
}

ordered_json direct_storage_json(const DirectStorageFacts& storage) {
  return {{"runtime", storage.runtime},          {"library", storage.library},
          {"version", or_null(storage.version)}, {"present", storage.is_present},
          {"direct", storage.is_direct},         {"reason", or_null(storage.reason)}};
}

std::string direct_storage_line(const DirectStorageFacts& storage) {
  if (!storage.is_present) {
    return fmt::format("{}: not here ({})", storage.library, storage.reason);
  }
  const std::string name = storage.version.empty()
                               ? std::string(storage.library)
                               : fmt::format("{} {}", storage.library, storage.version);
  return storage.is_direct ? name + ": direct"
                           : fmt::format("{}: not direct ({})", name, storage.reason);
}

// `0-3,8` as the kernel writes lists of cores.
std::string cpu_ranges(const std::vector<std::uint32_t>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) {
      ++last;
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[i]);
    text += last == i ? std::string() : fmt::format("-{}", cpus[last]);
    i = last + 1;
  }
  return text;
}

std::string line(std::string_view label, const std::string& value) {
  return fmt::format("{:<14}{}\n", label, value);
}

std::string engine_text(const EngineCandidate& engine) {
  if (!engine.usable) {
    return fmt::format("{}: no, {}", engine.name, engine.reason);
  }
  return engine.features.empty()
             ? fmt::format("{}: yes", engine.name)
             : fmt::format("{}: yes ({})", engine.name, fmt::join(engine.features, ", "));
}

std::string path_text(const PathCheckup& path) {
  if (path.file_system.empty() && !path.usable) {
    return line("path", fmt::format("{}: NO, {}", path.path, path.problem));
  }
  std::string text = line("path", path.usable ? path.path + ": yes"
                                              : fmt::format("{}: NO, {}", path.path, path.problem));
  text += line("", fmt::format("{} on {}, {} free of {}", path.file_system, path.device,
                               format_bytes(path.free_bytes), format_bytes(path.total_bytes)));
  if (path.quota_bytes) {
    text += line("", fmt::format("quota {}, {} of it used", format_bytes(*path.quota_bytes),
                                 format_bytes(path.quota_used_bytes.value_or(0))));
  }
  if (path.usable) {
    text += line("", path.direct.supported
                         ? fmt::format("direct I/O: yes, memory aligned to {} bytes, offsets to {}",
                                       path.direct.memory_alignment, path.direct.offset_alignment)
                         : fmt::format("direct I/O: no, {}", path.direct.reason));
  }
  return text;
}

std::string list_text(std::string_view heading, const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& entry : lines) {
    text += line(text.empty() ? heading : "", entry);
  }
  return text;
}

}  // namespace

bool DoctorReport::healthy() const noexcept {
  return std::any_of(engines.begin(), engines.end(),
                     [](const EngineCandidate& engine) { return engine.usable; }) &&
         std::all_of(paths.begin(), paths.end(),
                     [](const PathCheckup& path) { return path.usable; });
}

std::string DoctorReport::json() const {
  ordered_json document{{"schema", "penstock.doctor/1"},
                        {"healthy", healthy()},
                        {"kernel", kernel},
                        {"engines", ordered_json::array()},
                        {"memory",
                         {{"total_bytes", mem_total_bytes},
                          {"available_bytes", mem_available_bytes},
                          {"memlock_bytes", or_null(memlock_bytes)}}},
                        {"huge_pages",
                         {{"transparent", or_null(transparent_huge_pages)},
                          {"reserved", huge_pages_reserved},
                          {"free", huge_pages_free},
                          {"page_bytes", huge_page_bytes}}},
                        {"numa", numa_json(numa)},
                        {"gpus", ordered_json::array()},
                        {"device_runtimes", ordered_json::array()},
                        {"direct_storage", ordered_json::array()},
                        {"paths", ordered_json::array()},
                        {"uses", uses},
                        {"advice", advice}};
  for (const EngineCandidate& engine : engines) {
    document["engines"].push_back(engine_json(engine));
  }
  for (const Gpu& gpu : gpus) {
    document["gpus"].push_back({{"name", gpu.name},
                                {"driver", or_null(gpu.driver)},
                                {"usable", gpu.usable},
                                {"reason", or_null(gpu.reason)}});
  }
  for (const DeviceRuntime& runtime : device_runtimes) {
    document["device_runtimes"].push_back(runtime_json(runtime));
  }
  for (const DirectStorageFacts& storage : direct_storage) {
    document["direct_storage"].push_back(direct_storage_json(storage));
  }
  for (const PathCheckup& path : paths) {
    document["paths"].push_back(path_json(path));
  }
  return document_text(document);
}

std::string DoctorReport::text() const {
  std::string text = line("kernel", kernel);
  std::vector<std::string> lines;
  lines.reserve(engines.size());
  for (const EngineCandidate& engine : engines) {
    lines.push_back(engine_text(engine));
  }
  text += list_text("engines", lines);
  text += line("memory", fmt::format("{} available of {}", format_bytes(mem_available_bytes),
                                     format_bytes(mem_total_bytes)));
  text += line("memlock", memlock_bytes ? format_bytes(*memlock_bytes) : "no limit");
  text += line("huge pages",
               fmt::format("transparent: {}; {} reserved of {}, {} free",
                           transparent_huge_pages.empty() ? "not known" : transparent_huge_pages,
                           huge_pages_reserved, format_bytes(huge_page_bytes), huge_pages_free));
  lines.clear();
  for (const NumaNode& node : numa) {
    lines.push_back(fmt::format("node {}: {}, cores {}", node.number, format_bytes(node.bytes),
                                cpu_ranges(node.cpus)));
  }
  text += numa_problem.empty() ? list_text("NUMA", lines) : line("NUMA", numa_problem);
  lines.clear();
  for (const Gpu& gpu : gpus) {
    lines.push_back(gpu.usable ? fmt::format("{} ({})", gpu.name, gpu.driver)
                               : fmt::format("{}: not usable, {}", gpu.name, gpu.reason));
  }
  text += gpus.empty() ? line("GPUs", "none") : list_text("GPUs", lines);
  lines.clear();
  for (const DeviceRuntime& runtime : device_runtimes) {
    std::ranges::move(runtime_lines(runtime), std::back_inserter(lines));
  }
  text += list_text("runtimes", lines);
  lines.clear();
  for (const DirectStorageFacts& storage : direct_storage) {
    lines.push_back(direct_storage_line(storage));
  }
  text += list_text("direct to GPU", lines);
  for (const PathCheckup& path : paths) {
    text += path_text(path);
  }
  text += list_text("will use", uses);
  text += advice.empty() ? line("to change", "nothing") : list_text("to change", advice);
  return text;
}

}  // namespace penstock::cli
