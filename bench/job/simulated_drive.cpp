#include "bench/job/simulated_drive.h"

#include <fmt/format.h>

#include <algorithm>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bench/job/job_number.h"

namespace penstock::bench {
namespace {

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

Refusal read_drive(std::string_view parts, SimulatedDrive& drive) {
  while (!parts.empty()) {
    const std::size_t comma = std::min(parts.find(','), parts.size());
    if (Refusal refusal = read_drive_part(parts.substr(0, comma), drive)) {
      return refusal;
    }
    parts.remove_prefix(std::min(comma + 1, parts.size()));
  }
  return {};
}

}  // namespace penstock::bench
