#include "bench/job/job_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "swap/plan/nearest_name.h"

namespace penstock::bench {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

constexpr std::uint64_t kMinuteNs = 60 * kSecondNs;
constexpr std::uint64_t kHourNs = 60 * kMinuteNs;
constexpr std::array kTimeUnits = {
    Unit{"d", 24 * kHourNs}, Unit{"h", kHourNs},         Unit{"m", kMinuteNs},
    Unit{"s", kSecondNs},    Unit{"ms", kMillisecondNs}, Unit{"us", kMicrosecondNs},
    Unit{"ns", 1},
};

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

// Up to the next comma.
std::string_view take_part(std::string_view& text) {
  const std::string_view part = text.substr(0, text.find(','));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

template <class Number>
bool read_plain_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

std::uint64_t time_factor(std::string_view unit, std::uint64_t bare_ns) {
  const auto known = std::ranges::find(kTimeUnits, unit, &Unit::name);
  return unit.empty() ? bare_ns : known == kTimeUnits.end() ? 0 : known->factor;
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

Refusal read_rate(std::string_view text, std::uint64_t& bytes_per_second) {
  const Result<std::uint64_t> rate = parse_bytes(text);
  if (rate.has_error() || *rate == 0) {
    return fmt::format("bytes per second from 1 on are allowed, such as 3.5g, not \"{}\"",
                       excerpt(text));
  }
  bytes_per_second = *rate;
  return {};
}

Refusal read_drive_part(std::string_view part, SimulatedDrive& drive) {
  const std::size_t equals = std::min(part.find('='), part.size());
  const std::string_view name = part.substr(0, equals);
  const std::string_view value = part.substr(std::min(equals + 1, part.size()));
  if (name == "read") {
    return read_rate(value, drive.read_bytes_per_second);
  }
  if (name == "write") {
    return read_rate(value, drive.write_bytes_per_second);
  }
  if (name == "latency") {
    return read_time(value, kMicrosecondNs, drive.latency_ns);
  }
  if (name == "clock" && (value == "real" || value == "virtual")) {
    drive.real_time = value == "real";
    return {};
  }
  return fmt::format(
      "read=3.5g, write=3g and latency=80us are parts of a drive, and, where files of the machine "
      "are to be held to these rates, clock=real; not \"{}\"",
      excerpt(part));
}

}  // namespace

Refusal read_time(std::string_view text, std::uint64_t bare_ns, std::uint64_t& ns) {
  std::uint64_t digits = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, digits);
  const std::uint64_t factor =
      error == std::errc() ? time_factor(std::string_view(unit, end), bare_ns) : 0;
  if (factor == 0) {
    return fmt::format(
        "a whole number with d, h, m, s, ms, us or ns is allowed, or without a unit in {}",
        bare_ns == kSecondNs ? "seconds" : "microseconds");
  }
  if (digits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) / factor) {
    return "times up to 292 years are allowed";
  }
  ns = digits * factor;
  return {};
}

Refusal read_drive(std::string_view parts, SimulatedDrive& drive) {
  while (!parts.empty()) {
    if (Refusal refusal = read_drive_part(take_part(parts), drive)) {
      return refusal;
    }
  }
  return {};
}

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
    if (!add_cpus(take_part(text), cpus)) {
      CPU_ZERO(&cpus);
      break;
    }
  }
  if (CPU_COUNT(&cpus) == 0) {
    return "numbers of CPUs are allowed, such as 0-3,6";
  }
  job.cpus_allowed = cpus;
  return {};
}

}  // namespace penstock::bench
