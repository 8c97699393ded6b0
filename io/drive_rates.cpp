#include "io/drive_rates.h"

#include <algorithm>

#include "alloc/check.h"

namespace penstock {
namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

}  // namespace

std::uint64_t DriveSchedule::done_at(std::uint64_t now_ns, IoKind kind, std::uint64_t bytes) {
  const std::uint64_t rate =
      kind == IoKind::kRead ? rates_.read_bytes_per_second : rates_.write_bytes_per_second;
  PENSTOCK_CHECK(rate > 0, "a drive that moves {} bytes a second", rate);
  // A request has at most 1 GiB, so that this stays within 64 bits.
  const std::uint64_t transfer_ns = (bytes * kNsPerSecond + rate - 1) / rate;
  free_at_ns_ = std::max(free_at_ns_, now_ns) + transfer_ns;
  return free_at_ns_ + rates_.latency_ns;
}

}  // namespace penstock
