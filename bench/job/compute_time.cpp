#include "bench/job/compute_time.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/job/job_number.h"

namespace penstock::bench {
namespace {

constexpr std::string_view kSleep = "sleep:";
constexpr std::string_view kSpin = "spin:";
constexpr std::string_view kPerGigabyte = "/GB";
constexpr std::string_view kPerTensor = "/tensor";

bool take_front(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) {
    return false;
  }
  text.remove_prefix(word.size());
  return true;
}

bool take_back(std::string_view& text, std::string_view word) {
  if (!text.ends_with(word)) {
    return false;
  }
  text.remove_suffix(word.size());
  return true;
}

}  // namespace

Refusal read_compute(std::string_view text, Job& job) {
  Compute compute;
  compute.spins = !take_front(text, kSleep);
  if (compute.spins) {
    take_front(text, kSpin);
  }
  if (take_back(text, kPerGigabyte)) {
    compute.per = Compute::Per::kGigabyte;
  } else {
    take_back(text, kPerTensor);
  }
  if (read_time(text, kMicrosecondNs, compute.ns)) {
    return "a time per tensor such as 5ms is allowed, or one per 1e9 bytes such as 20ms/GB, with "
           "sleep: before it where the thread shall sleep and not spin";
  }
  job.compute = compute;
  return {};
}

std::optional<std::string> write_compute(const Job& job) {
  if (!job.compute) {
    return {};
  }
  return fmt::format("{}{}{}", job.compute->spins ? kSpin : kSleep, write_time(job.compute->ns),
                     job.compute->per == Compute::Per::kGigabyte ? kPerGigabyte : kPerTensor);
}

}  // namespace penstock::bench
