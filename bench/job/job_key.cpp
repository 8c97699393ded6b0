#include "bench/job/job_key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include "alloc/bytes.h"
#include "bench/job/job_value.h"
#include "swap/plan/nearest_name.h"

namespace penstock::bench {
namespace {

// In the order of their enumerators.
constexpr std::array<std::string_view, 4> kWorkloads = {"raw", "swap", "update", "replay"};
constexpr std::array<std::string_view, 3> kPhases = {"forward", "train", "generate"};
constexpr std::array<std::string_view, 3> kPeers = {"none", "fio", "deepspeed"};
constexpr std::array<std::string_view, 3> kIntegrity = {"off", "sampled", "full"};

constexpr std::string_view kAll = "raw, swap, update, replay";
constexpr std::string_view kSized = "raw, swap, update";
constexpr std::string_view kFiles = "raw";
constexpr std::string_view kSwaps = "swap, update, replay";
constexpr std::string_view kModel = "swap, update";
constexpr std::string_view kPaired = "raw, swap";

constexpr std::uint64_t kThreadsMax = 4096;
constexpr std::uint64_t kDepthMax = 65536;
constexpr std::uint64_t kCountMax = 4'294'967'295;
constexpr std::uint64_t kPairsMax = 10'000;

template <class T>
void set(T& member, std::uint64_t value) {
  member = static_cast<T>(value);
}
template <class T>
void set(std::optional<T>& member, std::uint64_t value) {
  member = static_cast<T>(value);
}

template <auto Member, std::uint64_t Min, std::uint64_t Max>
Refusal read_count(std::string_view text, Job& job) {
  const Result<std::uint64_t> number = parse_bytes(text);  // fio allows its units for all numbers
  if (number.has_error() || *number < Min || *number > Max) {
    return fmt::format("{} to {} are allowed", Min, Max);
  }
  set(job.*Member, *number);
  return {};
}

/// Bytes as the rest of penstock reads them: `64k`, `64MiB`, and `64MB` in units of 1000.
template <auto Member, std::uint64_t Min = 0>
Refusal read_size(std::string_view text, Job& job) {
  const Result<std::uint64_t> bytes = parse_bytes(text);
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (bytes.has_error() || *bytes < Min || *bytes > kMax) {
    return fmt::format(
        "{} bytes and more are allowed, such as 67108864, 64m or 64MiB (of 1024), "
        "64MB (of 1000)",
        Min);
  }
  job.*Member = *bytes;
  return {};
}

/// A time; without a unit in seconds.
template <auto Member>
Refusal read_duration(std::string_view text, Job& job) {
  std::uint64_t ns = 0;
  if (Refusal refusal = read_time(text, kSecondNs, ns)) {
    return refusal;
  }
  job.*Member = ns;
  return {};
}

template <auto Member>
Refusal read_switch(std::string_view text, Job& job) {
  if (text != "0" && text != "1") {
    return "0 and 1 are allowed";
  }
  job.*Member = text == "1";
  return {};
}

template <auto Member>
Refusal read_text(std::string_view text, Job& job) {
  if (text.empty()) {
    return "a text is needed";
  }
  job.*Member = std::string(text);
  return {};
}

/// One of `Names`, an array in the order of the member's enumerators.
template <auto Member, auto& Names>
Refusal read_choice(std::string_view text, Job& job) {
  const auto found = std::ranges::find(Names, text);
  if (found == Names.end()) {
    return fmt::format("{} are allowed{}", fmt::join(Names, ", "), did_you_mean(text, Names));
  }
  set(job.*Member, static_cast<std::uint64_t>(found - Names.begin()));
  return {};
}

Refusal read_workload(std::string_view text, Job& job) {
  Refusal refusal = read_choice<&Job::workload, kWorkloads>(text, job);
  job.phase = job.workload == Workload::kUpdate ? Phase::kStep : Phase::kForward;
  return refusal;
}

Refusal read_filename(std::string_view text, Job& job) {
  if (text.find(':') != std::string_view::npos) {
    return "one file is allowed, and a colon divides names in fio's job files";
  }
  return read_text<&Job::filename>(text, job);
}

Refusal read_name(std::string_view text, Job& job) {
  if (text.empty() || text == "global") {
    return "a name is needed, and \"global\" is the section of what holds for all jobs after it";
  }
  job.name = text;
  return {};
}

// 0 is no limit, as with fio.
template <auto Member, Refusal (*Read)(std::string_view, Job&)>
Refusal read_limit(std::string_view text, Job& job) {
  Refusal refusal = Read(text, job);
  if (job.*Member == 0) {
    (job.*Member).reset();
  }
  return refusal;
}

constexpr std::array kKeys = {
    JobKey{"name", "", kAll, read_name},
    JobKey{"workload", "", kAll, read_workload},

    JobKey{"directory", "", kAll, read_text<&Job::directory>},
    JobKey{"filename", "", kFiles, read_filename},
    JobKey{"size", "", kSized, read_job_size},
    JobKey{"io_size", "", kFiles, read_limit<&Job::io_size, read_size<&Job::io_size>>},
    JobKey{"unlink", "", kFiles, read_switch<&Job::unlink>},

    JobKey{"ioengine", "", kAll, read_engine},
    JobKey{"iodepth", "", kAll, read_count<&Job::iodepth, 1, kDepthMax>},
    JobKey{"direct", "", kFiles, read_switch<&Job::direct>},
    JobKey{"fixedbufs", "", kFiles, read_switch<&Job::fixedbufs>, true},
    JobKey{"bs", "blocksize", kAll, read_count<&Job::block_bytes, 1, kGiB>},
    JobKey{"rw", "readwrite", kFiles, read_direction},
    JobKey{"rwmixread", "", kFiles, read_count<&Job::rwmixread, 0, 100>},
    JobKey{"rate", "", kFiles, read_size<&Job::rate, 1>},
    JobKey{"numjobs", "", kAll, read_count<&Job::numjobs, 1, kThreadsMax>},
    JobKey{"cpus_allowed", "", kAll, read_cpus},
    JobKey{"verify", "", kSwaps, read_switch<&Job::verify>, true},

    JobKey{"runtime", "timeout", kAll,
           read_limit<&Job::runtime_ns, read_duration<&Job::runtime_ns>>},
    JobKey{"time_based", "", kAll, read_switch<&Job::time_based>, true},
    JobKey{"ramp_time", "", kSized, read_duration<&Job::ramp_time_ns>},
    JobKey{"loops", "", kAll, read_count<&Job::loops, 1, kCountMax>},
    JobKey{"stonewall", "wait_for_previous", kAll, read_switch<&Job::stonewall>, true},
    JobKey{"group_reporting", "", kAll, read_switch<&Job::group_reporting>, true},

    JobKey{"inventory", "", kModel, read_text<&Job::inventory>},
    JobKey{"config", "", kSwaps, read_text<&Job::config>},
    JobKey{"phase", "", "swap", read_choice<&Job::phase, kPhases>},
    JobKey{"compute", "", kSwaps, read_compute},
    JobKey{"max_pinned", "", kSwaps, read_size<&Job::max_pinned>},
    JobKey{"ram", "", kSwaps, read_size<&Job::ram>},
    JobKey{"lookahead", "", kSwaps, read_size<&Job::lookahead>},
    JobKey{"integrity", "", kSwaps, read_choice<&Job::integrity, kIntegrity>},
    JobKey{"trace", "", "replay", read_text<&Job::trace>},
    JobKey{"pair", "", kPaired, read_choice<&Job::peer, kPeers>},
    JobKey{"pairs", "", kPaired, read_count<&Job::pairs, 1, kPairsMax>},
};

}  // namespace

std::span<const JobKey> job_keys() {
  return kKeys;
}

const JobKey* find_job_key(std::string_view name) {
  const auto found = std::ranges::find_if(kKeys, [name](const JobKey& key) {
    return !name.empty() && (key.name == name || key.alias == name);
  });
  return found == kKeys.end() ? nullptr : &*found;
}

std::string unknown_job_key(std::string_view name) {
  std::vector<std::string_view> names;
  std::ranges::transform(kKeys, std::back_inserter(names), &JobKey::name);
  return fmt::format("is not a key of a job{}", did_you_mean(name, names));
}

std::string_view workload_name(Workload workload) {
  return kWorkloads.at(static_cast<std::size_t>(workload));
}

bool JobKey::is_for(Workload workload) const {
  return workloads.find(workload_name(workload)) != std::string_view::npos;
}

}  // namespace penstock::bench
