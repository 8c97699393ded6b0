#include "bench/job/job_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "bench/job/block_share.h"
#include "bench/job/compute_time.h"
#include "bench/job/engine_choice.h"
#include "bench/job/fio_word.h"
#include "bench/job/foreign_key.h"
#include "bench/job/member_value.h"
#include "bench/job/value_list.h"
#include "swap/plan/nearest_name.h"

namespace penstock::bench {
namespace {

using enum Workload;

// In the order of their enumerators.
constexpr std::array<std::string_view, 4> kWorkloads = {"raw", "swap", "update", "replay"};
constexpr std::array<std::string_view, 5> kPhases = {"forward", "backward", "step", "train",
                                                     "generate"};
constexpr std::array<std::string_view, 3> kPeers = {"none", "fio", "deepspeed"};
constexpr std::array<std::string_view, 3> kIntegrity = {"off", "sampled", "full"};

constexpr WorkloadSet kAll = {kRaw, kSwap, kUpdate, kReplay};
constexpr WorkloadSet kSized = {kRaw, kSwap, kUpdate};
constexpr WorkloadSet kFio = {kRaw};
constexpr WorkloadSet kOurs = {kSwap, kUpdate, kReplay};
constexpr WorkloadSet kModel = {kSwap, kUpdate};

constexpr std::uint64_t kThreadsMax = 4096;
constexpr std::uint64_t kFilesMax = 65536;
constexpr std::uint64_t kDepthMax = 65536;
constexpr std::uint64_t kCountMax = 4'294'967'295;
constexpr std::uint64_t kAnyMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kPairsMax = 10'000;

Refusal read_name(std::string_view text, Job& job) {
  if (text.empty() || text == "global") {
    return "a name is needed, and \"global\" is the section of what holds for all jobs after it";
  }
  job.name = text;
  return {};
}

// fio takes no runtime at all for 0.
Refusal read_runtime(std::string_view text, Job& job) {
  if (Refusal refusal = read_duration<&Job::runtime_ns, kSecondNs>(text, job)) {
    return refusal;
  }
  if (job.runtime_ns == 0) {
    job.runtime_ns.reset();
  }
  return {};
}

// Nor any bound on what is moved.
Refusal read_io_size(std::string_view text, Job& job) {
  if (Refusal refusal = read_size<&Job::io_size>(text, job)) {
    return refusal;
  }
  if (job.io_size == 0) {
    job.io_size.reset();
  }
  return {};
}

// Without a value: the job's own name.
Refusal read_bandwidth_log(std::string_view text, Job& job) {
  job.write_bw_log = text == "1" ? job.name : std::string(text);
  return text.empty() ? Refusal("a prefix of files' names is needed") : Refusal();
}

constexpr std::array kKeys = {
    JobKey{"name", "", "What reports call the job", "the section's name", kAll, false, read_name,
           write_text<&Job::name>},
    JobKey{"workload", "",
           "raw (as fio), swap (tensors of a model), update (optimizer states) or replay (a trace)",
           "raw", kAll, false, read_choice<&Job::workload, kWorkloads>,
           write_choice<&Job::workload, kWorkloads>},

    JobKey{"directory", "", "Where the files are", "the working directory", kAll, false,
           read_text<&Job::directory>, write_text<&Job::directory>},
    JobKey{"filename", "", "The files, `a:b`; a colon within a name is `\\:`", "NAME.THREAD.FILE",
           kFio, false, read_filenames, write_filenames},
    JobKey{"nrfiles", "nr_files", "Files a thread, where `filename` does not name them", "1", kFio,
           false, read_count<&Job::nrfiles, 1, kFilesMax>, write_count<&Job::nrfiles>},
    JobKey{"size", "",
           "Bytes of all files of a thread together; of a model, take tensors of so many bytes, "
           "distributed as the whole",
           "what is there", kSized, false, read_size<&Job::size>, write_size<&Job::size>},
    JobKey{"io_size", "io_limit", "Bytes to move, however large the files are", "`size`", kFio,
           false, read_io_size, write_size<&Job::io_size>},
    JobKey{"offset", "fileoffset", "Where in each file to begin", "0", kFio, false,
           read_size<&Job::offset>, write_size<&Job::offset>},
    JobKey{"fallocate", "",
           "Reserve the files' space before: native (where it can be), posix, keep, none, truncate",
           "native", kFio, false, read_fallocate, write_fallocate},
    JobKey{"invalidate", "", "Drop what the page cache has of the files before", "1", kFio, false,
           read_switch<&Job::invalidate>, write_switch<&Job::invalidate>},
    JobKey{"unlink", "", "Remove the files afterwards", "0", kFio, false, read_switch<&Job::unlink>,
           write_switch<&Job::unlink>},

    JobKey{"ioengine", "",
           "uring, aio, threads, null or `sim:read=3.5g,write=3g,latency=80us` (virtual time); "
           "fio's io_uring, libaio, psync, pvsync, sync are the first three",
           "threads (fio's psync); the plan's", kAll, false, read_engine, write_engine},
    JobKey{"iodepth", "", "Requests under way at once", "1; the plan's", kAll, false,
           read_count<&Job::iodepth, 1, kDepthMax>, write_count<&Job::iodepth>},
    JobKey{"direct", "", "Past the page cache (O_DIRECT)", "0; the probe's", kAll, false,
           read_switch<&Job::direct>, write_switch<&Job::direct>},
    JobKey{"fixedbufs", "", "Register the memory with the kernel (io_uring)", "0", kAll, true,
           read_switch<&Job::fixedbufs>, write_switch<&Job::fixedbufs>},
    JobKey{"bs", "blocksize", "Bytes a request: of reads, writes (`4k,64k`)", "4k; the plan's",
           kAll, false, read_block_sizes, write_block_sizes},
    JobKey{"bssplit", "",
           "A mix of sizes with percentages, over `bs`: `4k/10:64k/50:32k/`, of reads, writes",
           "none", kAll, false, read_block_split, write_block_split},
    JobKey{"rw", "readwrite", "read, write, randread, randwrite, rw (readwrite) or randrw", "read",
           kFio, false, read_direction, write_direction},
    JobKey{"rwmixread", "", "Percentage of reads where both are made", "50", kFio, false,
           read_count<&Job::rwmixread, 0, 100>, write_count<&Job::rwmixread>},
    JobKey{"numjobs", "",
           "Threads that do the same, each with files of its own unless `filename` names them", "1",
           kAll, false, read_count<&Job::numjobs, 1, kThreadsMax>, write_count<&Job::numjobs>},
    JobKey{"thread", "", "For fio's sake: jobs are always threads", "0", kAll, true,
           read_switch<&Job::thread>, write_switch<&Job::thread>},
    JobKey{"fsync", "", "Sync after so many writes; 0 never", "0", kFio, false,
           read_count<&Job::fsync, 0, kCountMax>, write_count<&Job::fsync>},
    JobKey{"end_fsync", "", "Sync at the end, within the time that is measured", "0", kFio, false,
           read_switch<&Job::end_fsync>, write_switch<&Job::end_fsync>},
    JobKey{"thinktime", "", "Pause after each request (microseconds)", "0", kFio, false,
           read_duration<&Job::thinktime_us, kMicrosecondNs, kMicrosecondNs>,
           write_duration<&Job::thinktime_us, kMicrosecondNs>},
    JobKey{"randseed", "", "What decides random offsets, sizes and contents", "0", kAll, false,
           read_count<&Job::randseed, 0, kAnyMax>, write_count<&Job::randseed>},
    JobKey{"verify", "", "Compare every byte that was written: 1, or any of fio's checksums",
           "none", kAll, false, read_verify, write_verify},

    JobKey{"runtime", "timeout", "End after this time (seconds), done or not", "none", kAll, false,
           read_runtime, write_duration<&Job::runtime_ns>},
    JobKey{"time_based", "", "Begin anew until `runtime` is over", "0", kAll, true,
           read_switch<&Job::time_based>, write_switch<&Job::time_based>},
    JobKey{"ramp_time", "", "Time before measuring begins (seconds), beside `runtime`", "0", kAll,
           false, read_duration<&Job::ramp_time_ns, kSecondNs>, write_duration<&Job::ramp_time_ns>},
    JobKey{"loops", "", "How many times", "1", kAll, false, read_count<&Job::loops, 1, kCountMax>,
           write_count<&Job::loops>},
    JobKey{"stonewall", "wait_for_previous", "Begin when all jobs before it have ended", "0", kAll,
           true, read_switch<&Job::stonewall>, write_switch<&Job::stonewall>},

    JobKey{"group_reporting", "", "One result for all threads", "0", kAll, true,
           read_switch<&Job::group_reporting>, write_switch<&Job::group_reporting>},
    JobKey{"percentile_list", "", "Percentiles of completion latency, at most 20: `99.0:99.9`",
           "fio's 17", kAll, false, read_percentiles, write_percentiles},
    JobKey{"write_bw_log", "",
           "Prefix of files that take the bandwidth over time; without a value the job's name",
           "none", kAll, true, read_bandwidth_log, write_text<&Job::write_bw_log>},

    JobKey{"inventory", "", "The model: what `penstock plan` takes", "must be given", kModel, false,
           read_text<&Job::inventory>, write_text<&Job::inventory>},
    JobKey{"config", "", "A DeepSpeed JSON", "defaults", kOurs, false, read_text<&Job::config>,
           write_text<&Job::config>},
    JobKey{"phase",
           "",
           "Order of use: forward, backward, step, train or generate",
           "forward",
           {kSwap},
           false,
           read_choice<&Job::phase, kPhases>,
           write_choice<&Job::phase, kPhases>},
    JobKey{"compute", "",
           "What passes between two tensors: `5ms` for each, `20ms/GB`, `sleep:5ms` where it "
           "sleeps and does not spin",
           "nothing", kOurs, false, read_compute, write_compute},
    JobKey{"max_pinned", "", "`penstock.max_pinned_bytes`", "the configuration's", kOurs, false,
           read_own_size<&Job::max_pinned>, write_size<&Job::max_pinned>},
    JobKey{"ram", "", "`penstock.ram_bytes`", "the configuration's", kOurs, false,
           read_own_size<&Job::ram>, write_size<&Job::ram>},
    JobKey{"lookahead", "", "Bytes read ahead of their use at most", "what memory allows", kOurs,
           false, read_own_size<&Job::lookahead>, write_size<&Job::lookahead>},
    JobKey{"integrity", "", "off, sampled or full", "the configuration's", kOurs, false,
           read_choice<&Job::integrity, kIntegrity>, write_choice<&Job::integrity, kIntegrity>},
    JobKey{"trace",
           "",
           "The trace to run again (`PENSTOCK_TRACE` saves one)",
           "must be given",
           {kReplay},
           false,
           read_text<&Job::trace>,
           write_text<&Job::trace>},
    JobKey{"pair", "", "Run the same work in turns with fio or deepspeed and print ratios", "none",
           kAll, false, read_choice<&Job::peer, kPeers>, write_choice<&Job::peer, kPeers>},
    JobKey{"pairs", "", "How many turns of both", "10", kAll, false,
           read_count<&Job::pairs, 1, kPairsMax>, write_count<&Job::pairs>},
};

bool has_alias(const JobKey& key, std::string_view name) {
  std::string_view rest = key.aliases;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == name) {
      return true;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// `; did you mean "iodepth"?`, or nothing.
std::string nearest_job_key(std::string_view name) {
  std::vector<std::string_view> names;
  for (const JobKey& key : kKeys) {
    names.push_back(key.name);
  }
  return did_you_mean(name, names);
}

}  // namespace

std::span<const JobKey> job_keys() {
  return kKeys;
}

const JobKey* find_job_key(std::string_view name) {
  const auto found = std::ranges::find_if(
      kKeys, [name](const JobKey& key) { return key.name == name || has_alias(key, name); });
  return found == kKeys.end() ? nullptr : &*found;
}

std::string unknown_job_key(std::string_view name) {
  if (is_command_option(name)) {
    return fmt::format("is an option of penstock bench (--{}), not a key of a job", name);
  }
  return fmt::format("{}{}",
                     is_foreign_key(name) ? "is a key of fio that penstock does not have"
                                          : "is not a key of a job",
                     nearest_job_key(name));
}

bool resembles_job_key(std::string_view name) {
  return is_command_option(name) || is_foreign_key(name) || !nearest_job_key(name).empty();
}

std::string_view workload_name(Workload workload) {
  return kWorkloads.at(static_cast<std::size_t>(workload));
}

}  // namespace penstock::bench
