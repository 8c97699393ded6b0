#include "bench/job/job_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "alloc/bytes.h"
#include "bench/job/job_number.h"
#include "swap/plan/nearest_name.h"

namespace penstock::bench {
namespace {

constexpr std::array<std::string_view, 10> kEngines = {
    "uring", "aio", "threads", "null", "sim", "auto", "io_uring", "libaio", "psync", "sync"};

constexpr SimulatedDrive kDrive = {
    .read_bytes_per_second = 7 * kGiB / 2,
    .write_bytes_per_second = 3 * kGiB,
    .latency_ns = 80 * kMicrosecondNs,
    .real_time = false,
};

constexpr std::array<std::string_view, 4> kDirections = {"read", "write", "rw", "readwrite"};

bool take_front(std::string_view& text, std::string_view word) {
  const bool found = text.starts_with(word);
  text.remove_prefix(found ? word.size() : 0);
  return found;
}

bool take_back(std::string_view& text, std::string_view word) {
  const bool found = text.ends_with(word);
  text.remove_suffix(found ? word.size() : 0);
  return found;
}

template <class Number>
bool read_plain_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// `3` or `0-3`; false: neither.
bool add_cpus(std::string_view text, cpu_set_t& cpus) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  if (!read_plain_number(text.substr(0, dash), first) ||
      !read_plain_number(dash == text.size() ? text : text.substr(dash + 1), last) ||
      first > last || last >= CPU_SETSIZE) {
    return false;
  }
  for (std::uint32_t cpu = first; cpu <= last; ++cpu) {
    CPU_SET(cpu, &cpus);
  }
  return true;
}

}  // namespace

Refusal read_engine(std::string_view text, Job& job) {
  if (text == "sim" || text.starts_with("sim:")) {
    SimulatedDrive drive = kDrive;
    if (Refusal refusal = read_drive(text.substr(std::min<std::size_t>(4, text.size())), drive)) {
      return refusal;
    }
    job.simulated = drive;
    job.engine.reset();
    job.synchronous = false;
    return {};
  }
  job.synchronous = text == "psync" || text == "sync";
  const Result<EngineKind> kind = parse_engine_kind(job.synchronous ? "threads" : text);
  if (kind.has_error()) {
    return fmt::format(
        "uring, aio, threads, psync, null and sim:… are allowed, and fio's io_uring and libaio{}",
        did_you_mean(text, kEngines));
  }
  job.engine = *kind;
  job.simulated.reset();
  return {};
}

Refusal read_compute(std::string_view text, Job& job) {
  Compute compute;
  compute.spins = !take_front(text, "sleep:");
  compute.per = take_back(text, "/GB") ? Compute::Per::kGigabyte : Compute::Per::kTensor;
  if (read_time(text, kMicrosecondNs, compute.ns)) {
    return "a time per tensor such as 5ms is allowed, or one per 1e9 bytes such as 20ms/GB, with "
           "sleep: before it where the thread shall sleep and not spin";
  }
  job.compute = compute;
  return {};
}

Refusal read_direction(std::string_view text, Job& job) {
  if (std::ranges::find(kDirections, text) == kDirections.end()) {
    return "read, write and rw are allowed: random requests are fio's work (run fio)";
  }
  job.direction = {.reads = text != "write", .writes = text != "read"};
  return {};
}

Refusal read_job_size(std::string_view text, Job& job) {
  job.size = 0;
  job.size_percent = 0;
  if (take_back(text, "%")) {
    const bool is_share = read_plain_number(text, job.size_percent) && job.size_percent > 0 &&
                          job.size_percent <= 100;  // false for "nan"
    if (!is_share) {
      return "a share above 0% and up to 100% is allowed";
    }
    return {};
  }
  const Result<std::uint64_t> bytes = parse_bytes(text);
  if (bytes.has_error()) {
    return "bytes are allowed, such as 67108864, 64m or 64MiB (of 1024), 64MB (of 1000), or a "
           "share "
           "such as 10%";
  }
  job.size = *bytes;
  return {};
}

Refusal read_cpus(std::string_view text, Job& job) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (!add_cpus(text.substr(0, comma), cpus)) {
      CPU_ZERO(&cpus);
      break;
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (CPU_COUNT(&cpus) == 0) {
    return "numbers of CPUs are allowed, such as 0-3,6";
  }
  job.cpus_allowed = cpus;
  return {};
}

}  // namespace penstock::bench
