#include "bench/job/engine_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "alloc/bytes.h"
#include "bench/job/job_number.h"
#include "swap/plan/nearest_name.h"

namespace penstock::bench {
namespace {

constexpr std::string_view kSimulated = "sim";
// What fio's synchronous engines are here, beyond those that the engines' own names know.
constexpr std::string_view kSync = "sync";
constexpr std::array<std::string_view, 11> kNames = {"uring", "aio",    "threads",  "null",
                                                     "sim",   "auto",   "io_uring", "libaio",
                                                     "psync", "pvsync", "sync"};

constexpr SimulatedDrive kDrive = {
    .read_bytes_per_second = 7 * kGiB / 2,
    .write_bytes_per_second = 3 * kGiB,
    .latency_ns = 80 * kMicrosecondNs,
    .real_time = false,
};

bool is_synchronous(std::string_view text) {
  return text == kSync || text == "psync" || text == "pvsync";
}

std::optional<EngineKind> engine_named(std::string_view text) {
  if (text == kSync) {
    return EngineKind::kThreads;
  }
  const Result<EngineKind> kind = parse_engine_kind(text);
  return kind.has_value() ? std::optional(*kind) : std::nullopt;
}

}  // namespace

Refusal read_engine(std::string_view text, Job& job) {
  if (text == kSimulated || text.starts_with("sim:")) {
    SimulatedDrive drive = kDrive;
    if (Refusal refusal = read_drive(text.substr(std::min<std::size_t>(4, text.size())), drive)) {
      return refusal;
    }
    job.simulated = drive;
    job.engine.reset();
    job.synchronous = false;
    return {};
  }
  const std::optional<EngineKind> kind = engine_named(text);
  if (!kind) {
    return fmt::format(
        "uring, aio, threads, null and sim:… are allowed, and fio's io_uring, libaio, psync, "
        "pvsync "
        "and sync for the first three{}",
        did_you_mean(text, kNames));
  }
  job.engine = kind;
  job.synchronous = is_synchronous(text);
  job.simulated.reset();
  return {};
}

std::optional<std::string> write_engine(const Job& job) {
  if (job.simulated) {
    return fmt::format(
        "sim:read={},write={},latency={}{}", write_bytes(job.simulated->read_bytes_per_second),
        write_bytes(job.simulated->write_bytes_per_second), write_time(job.simulated->latency_ns),
        job.simulated->real_time ? ",clock=real" : "");
  }
  if (job.synchronous) {
    return "psync";
  }
  return job.engine ? std::optional<std::string>(engine_kind_name(*job.engine)) : std::nullopt;
}

}  // namespace penstock::bench
