#include "cli/tuned_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <system_error>

namespace penstock::cli {
namespace {

using bench::DriveTuning;
using Json = ConfigDraft::Json;
namespace fs = std::filesystem;

constexpr double kAsGood = 0.97;  // of the fastest path: no reason to move
constexpr double kMegabyte = 1e6;
constexpr const char* kThreadsKey = "aio.intra_op_parallelism";
// With requests of 1 MiB: 7 GB/s x 4 ms.
constexpr std::uint64_t kDepthUnmeasured = 32;

bool is_number(const Json& value) {
  return value.is_number() && value.get<double>() >= 1;
}

// What was meant for intra_op_parallelism, under a name that DeepSpeed does not read.
void rescue_threads(ConfigDraft& draft) {
  for (const char* key : {"aio.num_threads", "aio.thread_count"}) {
    const Json meant = draft.value(key);
    if (draft.value(kThreadsKey).is_null() && is_number(meant) && meant != Json(1)) {
      draft.set(kThreadsKey, meant,
                fmt::format("{} is not read by DeepSpeed 0.19.8; this is the name for it", key), 1);
    }
  }
}

// Symbolic links and the last slash away, of a path that may not be there yet.
fs::path canonical(const std::string& path) {
  std::error_code error;
  const fs::path found = fs::weakly_canonical(fs::absolute(path), error);
  return error ? fs::path(path) : found;
}

bool is_below(const std::string& path, const std::string& directory) {
  const fs::path relative = canonical(path).lexically_relative(canonical(directory));
  return !relative.empty() && *relative.begin() != "..";
}

// Which of those measured holds a path that the file names.
std::optional<std::size_t> measured_at(const DriveTuning& measured, const Json& path) {
  for (std::size_t at = 0; path.is_string() && at < measured.paths.size(); ++at) {
    if (is_below(path.get<std::string>(), measured.paths[at].path)) {
      return at;
    }
  }
  return std::nullopt;
}

std::string rate(double bytes_per_second) {
  return fmt::format("{:.0f} MB/s", bytes_per_second / kMegabyte);
}

void set_nvme_path(const DriveTuning& measured, const std::string& section, ConfigDraft& draft) {
  const std::string key = section + ".nvme_path";
  const Json present = draft.value(key);
  const bench::PathSpeed& fastest = measured.paths[measured.used.front()];
  const std::optional<std::size_t> at = measured_at(measured, present);
  if (at && measured.paths[*at].mixed >= kAsGood * fastest.mixed) {
    draft.set(key, present, "kept: it is on a path that was measured, and none is faster");
  } else if (at) {
    draft.set(key, fastest.path,
              fmt::format("the fastest: {} at the step's mix, {} has {}", rate(fastest.mixed),
                          measured.paths[*at].path, rate(measured.paths[*at].mixed)));
  } else {
    draft.set(key, fastest.path, "the path that was measured (--path)");
  }
}

// How the file calls a path that was measured: its own entry, else its nvme_path, else as given.
std::string name_in_file(const DriveTuning& measured, std::size_t path, const ConfigDraft& draft) {
  for (const char* section : {"offload_param", "offload_optimizer"}) {
    const Json name = draft.value(fmt::format("zero_optimization.{}.nvme_path", section));
    if (measured_at(measured, name) == path) {
      return name.get<std::string>();
    }
  }
  return measured.paths[path].path;
}

void add_speeds(const bench::PathSpeed& speed, Json& entry) {
  if (speed.mixed > 0) {
    entry["read_bytes_per_second"] = static_cast<std::uint64_t>(std::llround(speed.read));
    entry["write_bytes_per_second"] = static_cast<std::uint64_t>(std::llround(speed.write));
  }
}

Json as_object(const Json& entry) {
  return entry.is_object() ? entry : Json{{"path", entry}};
}

// Entries of the file are kept with all that they say; those that are not measured leave no way to
// weigh the others.
Json paths_of_file(const DriveTuning& measured, const Json& present, bool& all_measured) {
  Json list = Json::array();
  for (const Json& entry : present) {
    Json kept = as_object(entry);
    const std::optional<std::size_t> at = measured_at(measured, kept.value("path", Json()));
    all_measured = all_measured && at.has_value();
    if (at) {
      add_speeds(measured.paths[*at], kept);
    }
    list.push_back(std::move(kept));
  }
  return list;
}

Json used_paths(const DriveTuning& measured, const Json& present, const ConfigDraft& draft) {
  Json list = Json::array();
  for (const std::size_t path : measured.used) {
    Json entry{{"path", name_in_file(measured, path, draft)}};
    for (const Json& old : present.is_array() ? present : Json::array()) {
      if (measured_at(measured, as_object(old).value("path", Json())) == path) {
        entry = as_object(old);
      }
    }
    if (measured.used.size() > 1) {
      entry["weight"] = std::round(measured.paths[path].mixed / kMegabyte) / 1000;  // GB/s
    } else if (entry.contains("weight") && measured.paths.size() > 1) {
      entry.erase("weight");
    }
    add_speeds(measured.paths[path], entry);
    list.push_back(std::move(entry));
  }
  return list;
}

// `1.21 x (1.15 to 1.26, 6 turns)`.
std::string describe(const bench::Advantage& advantage) {
  return fmt::format("{:.2f} x ({:.2f} to {:.2f}, {} turns)", advantage.ratio,
                     advantage.confidence.low, advantage.confidence.high, advantage.turns);
}

std::string why_paths(const DriveTuning& measured) {
  const bench::PathSpeed& first = measured.paths[measured.used.front()];
  if (!measured.measured()) {
    return "not measured";
  }
  if (measured.used.size() > 1) {
    return fmt::format("together {} as fast as {} alone; weights are GB/s at the step's mix",
                       describe(*measured.together), first.path);
  }
  const std::string alone = fmt::format("reads {}, writes {}", rate(first.read), rate(first.write));
  return measured.paths.size() == 1 || !measured.together
             ? alone
             : fmt::format("{}; all together are {}, no faster beyond the noise", alone,
                           describe(*measured.together));
}

}  // namespace

void set_aio(ConfigDraft& draft) {
  if (!draft.value("aio").is_null()) {
    rescue_threads(draft);
    return;
  }
  const AioConfig defaults;
  draft.set("aio.block_size", defaults.block_size,
            "DeepSpeed's; it also keeps tensors below max(1 MiB, block_size) in RAM",
            defaults.block_size);
  draft.set("aio.queue_depth", kDepthUnmeasured,
            "32 MiB under way fill a drive of 7 GB/s at 4 ms; DeepSpeed's ds_nvme_tune measures",
            defaults.queue_depth);
  draft.set(kThreadsKey, defaults.intra_op_parallelism, "one thread keeps such a queue full",
            defaults.intra_op_parallelism);
  draft.set("aio.single_submit", false, "a batch of requests is one system call", false);
  draft.set("aio.overlap_events", true, "the queue is filled up while results come", true);
}

void set_tuned_paths(const SwapPlan& plan, const DriveTuning& measured, ConfigDraft& draft) {
  if (!plan.setup.has_config || plan.setup.param_device() == OffloadDevice::kNvme) {
    set_nvme_path(measured, "zero_optimization.offload_param", draft);
  }
  if (plan.setup.has_config && plan.setup.optimizer_device() == OffloadDevice::kNvme) {
    set_nvme_path(measured, "zero_optimization.offload_optimizer", draft);
  }
  const Json present = draft.value("penstock.paths");
  bool all_measured = true;
  Json kept = paths_of_file(measured, present.is_array() ? present : Json::array(), all_measured);
  if (all_measured) {
    draft.set("penstock.paths", used_paths(measured, present, draft), why_paths(measured));
  } else {
    draft.set("penstock.paths", std::move(kept),
              "kept: not all of them were measured (--path), so weights cannot be compared");
  }
}

}  // namespace penstock::cli
