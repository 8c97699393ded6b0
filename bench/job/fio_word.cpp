#include "bench/job/fio_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "swap/plan/nearest_name.h"

namespace penstock::bench {
namespace {

struct DirectionName {
  std::string_view name;
  Direction direction;
};

// Of two names of one direction the first is written.
constexpr std::array kDirections = {
    DirectionName{"read", {true, false, false}},    DirectionName{"write", {false, true, false}},
    DirectionName{"randread", {true, false, true}}, DirectionName{"randwrite", {false, true, true}},
    DirectionName{"rw", {true, true, false}},       DirectionName{"readwrite", {true, true, false}},
    DirectionName{"randrw", {true, true, true}},
};
constexpr std::array<std::string_view, 7> kDirectionNames = {
    "read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"};

constexpr std::array<std::string_view, 16> kChecksums = {
    "md5",    "crc64",  "crc32",    "crc32c",   "crc32c-intel", "crc16",    "crc7",   "sha1",
    "sha256", "sha512", "sha3-224", "sha3-256", "sha3-384",     "sha3-512", "xxhash", "none"};

}  // namespace

Refusal read_direction(std::string_view text, Job& job) {
  const auto found = std::ranges::find(kDirections, text, &DirectionName::name);
  if (found != kDirections.end()) {
    job.direction = found->direction;
    return {};
  }
  if (text.find("trim") != std::string_view::npos) {
    return fmt::format("{} are allowed: penstock does not trim", fmt::join(kDirectionNames, ", "));
  }
  if (text.find(':') != std::string_view::npos) {
    return "fio's number after the colon (how many requests, or how far apart) is not supported; "
           "leave it out";
  }
  return fmt::format("{} are allowed{}", fmt::join(kDirectionNames, ", "),
                     did_you_mean(text, kDirectionNames));
}

std::optional<std::string> write_direction(const Job& job) {
  const auto found = std::ranges::find(kDirections, job.direction, &DirectionName::direction);
  return found == kDirections.end() ? std::nullopt : std::optional<std::string>(found->name);
}

Refusal read_fallocate(std::string_view text, Job& job) {
  if (text == "native") {
    job.fallocate.reset();
  } else if (text == "posix" || text == "keep" || text == "1") {
    job.fallocate = true;
  } else if (text == "none" || text == "truncate" || text == "0") {
    job.fallocate = false;
  } else {
    return "none, native, posix, keep, truncate, 0 and 1 are allowed";
  }
  return {};
}

std::optional<std::string> write_fallocate(const Job& job) {
  return !job.fallocate ? "native" : *job.fallocate ? "posix" : "none";
}

Refusal read_verify(std::string_view text, Job& job) {
  if (text == "0" || text == "none") {
    job.verify = false;
    job.verify_method.clear();
    return {};
  }
  const std::string_view method = text == "1" ? "crc32c" : text;
  if (std::ranges::find(kChecksums, method) == kChecksums.end()) {
    return fmt::format(
        "0, 1 and fio's checksums ({}) are allowed; whichever is named, every byte is compared{}",
        fmt::join(kChecksums, ", "), did_you_mean(text, kChecksums));
  }
  job.verify = true;
  job.verify_method = method;
  return {};
}

std::optional<std::string> write_verify(const Job& job) {
  return job.verify ? job.verify_method : "none";
}

}  // namespace penstock::bench
