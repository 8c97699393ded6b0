#include "bench/job/job_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bench/job/ini_text.h"
#include "bench/job/job_key.h"
#include "bindings/inventory/input_file.h"

namespace penstock::bench {
namespace {

constexpr std::uint64_t kFileMax = kMiB;
constexpr std::size_t kJobsMax = 1024;

Error wrong(std::string what, const TextPlace& place = {}) {
  Error error = fault(Fault::kConfiguration, std::move(what));
  error.path = place.file;
  return error;
}

/// `bs in FILE, line 7`, `--bs`: the begin of a sentence on what a key was given.
std::string given_place(const Assignment& assignment) {
  return fmt::format("{}{}{}", assignment.place.file.empty() ? "--" : "", excerpt(assignment.key),
                     assignment.place.text());
}

Error refused(const Assignment& assignment, std::string_view what) {
  return wrong(fmt::format("{} {}", given_place(assignment), what), assignment.place);
}

/// A key with what it was given.
struct Given {
  const JobKey* key;
  Assignment assignment;
  /// Said of several jobs: passed over by those to whose workload it means nothing.
  bool is_shared;
};

Result<std::vector<Given>> known_keys(const std::vector<Assignment>& assignments, bool is_shared) {
  std::vector<Given> known;
  for (const Assignment& assignment : assignments) {
    const JobKey* key = find_job_key(assignment.key);
    if (key == nullptr) {
      return refused(assignment, unknown_job_key(assignment.key));
    }
    if (!assignment.value && !key->stands_alone) {
      return refused(assignment, fmt::format("needs a value: {}=…", key->name));
    }
    known.push_back({key, assignment, is_shared});
  }
  return known;
}

Result<void> apply(const Given& given, Job& job) {
  // Shared by several jobs a name would be all of theirs.
  if (given.is_shared && given.key->name == "name") {
    return {};
  }
  if (!given.key->is_for(job.workload)) {
    return given.is_shared
               ? Result<void>()
               : refused(given.assignment,
                         fmt::format("means nothing to workload={}; it is for {}",
                                     workload_name(job.workload), given.key->workloads));
  }
  const std::string value = given.assignment.value.value_or("1");
  if (const Refusal refusal = given.key->read(value, job)) {
    return refused(given.assignment, fmt::format("is \"{}\"; {}", excerpt(value), *refusal));
  }
  job.given[std::string(given.key->name)] = value;
  return {};
}

// The smallest sector that a drive has. What the file at hand asks for is known when it is opened.
constexpr std::uint64_t kSectorMin = 512;

Refusal check_raw(const Job& job) {
  const std::uint64_t block = job.raw_block_bytes();
  if (job.simulated) {
    return "ioengine=sim is for workload=swap, update and replay; workload=raw measures a real "
           "drive";
  }
  if (job.direct.value_or(false) && block % kSectorMin != 0) {
    return fmt::format("bs={} with direct=1: direct I/O moves whole sectors of {} bytes or more",
                       block, kSectorMin);
  }
  if (job.size == 0 && job.size_percent == 0 && job.direction.writes && job.filename.empty()) {
    return "it writes a file that it makes itself; say how large it is, such as size=1g";
  }
  if (job.size != 0 && job.size < block) {
    return fmt::format("size={} is less than one request (bs={})", job.size, block);
  }
  if (job.io_size && *job.io_size < block) {
    return fmt::format("io_size={} is less than one request (bs={})", *job.io_size, block);
  }
  return {};
}

Refusal check_peer(const Job& job) {
  if (job.verify) {
    return "verify= costs time that a peer does not spend: leave out one of verify= and pair=";
  }
  if (job.engine == EngineKind::kNull || job.simulated) {
    return "pair= needs a drive, and ioengine=null and sim have none";
  }
  if (job.workload == Workload::kSwap && job.peer == Peer::kDeepSpeed &&
      (job.runtime_ns || job.numjobs > 1)) {
    return "DeepSpeed's swappers go through a model `loops` times in one thread: leave out runtime "
           "and numjobs";
  }
  return {};
}

Refusal check_workload(const Job& job) {
  if (job.workload == Workload::kRaw) {
    return check_raw(job);
  }
  if (job.workload == Workload::kReplay) {
    return job.trace.empty() ? Refusal("workload=replay needs a trace: trace=FILE") : Refusal();
  }
  return job.inventory.empty()
             ? fmt::format("workload={} needs a model: inventory=FILE", workload_name(job.workload))
             : Refusal();
}

// Why the keys of a job make no sense together; nothing where they do.
Refusal check_job(const Job& job) {
  if (job.time_based && !job.runtime_ns) {
    return "time_based without a runtime would never end; add one, such as runtime=30s";
  }
  if (job.simulated && job.numjobs > 1) {
    return "a simulated drive is of one thread: each of numjobs would have the bandwidth of all of "
           "it; leave out numjobs";
  }
  if (Refusal refusal = check_workload(job)) {
    return refusal;
  }
  return job.peer == Peer::kNone ? Refusal() : check_peer(job);
}

/// A job before its keys are understood; of several givens of one key the last counts.
struct Draft {
  std::string name;  ///< empty: the workload's
  TextPlace place;
  std::vector<Given> given = {};

  void add(const std::vector<Given>& more) { given.insert(given.end(), more.begin(), more.end()); }

  Result<Job> make() const {
    std::vector<Given> ordered = given;
    std::ranges::stable_sort(ordered, {}, &Given::key);  // they point into one table
    Job job;
    job.name = name;
    for (const Given& one : ordered) {
      PENSTOCK_TRY(apply(one, job));
    }
    if (job.name.empty()) {
      job.name = workload_name(job.workload);
    }
    if (const Refusal refusal = check_job(job)) {
      return wrong(fmt::format("job \"{}\"{}: {}", excerpt(job.name), place.text(), *refusal),
                   place);
    }
    return job;
  }
};

/// Adds the drafts of one file.
Result<void> add_file(std::string_view text, const std::string& origin,
                      std::vector<Draft>& drafts) {
  const Result<std::vector<IniSection>> sections = parse_ini(text, origin);
  PENSTOCK_TRY(sections);
  std::vector<Given> global;
  const std::size_t before = drafts.size();
  for (const IniSection& section : *sections) {
    const Result<std::vector<Given>> given = known_keys(section.assignments, section.is_global());
    PENSTOCK_TRY(given);
    if (section.is_global()) {
      global.insert(global.end(), given->begin(), given->end());
      continue;
    }
    if (drafts.size() - before == kJobsMax) {
      return wrong(fmt::format("{} has more than {} jobs", excerpt(origin), kJobsMax));
    }
    Draft& draft = drafts.emplace_back(Draft{section.name, section.place});
    draft.add(global);
    draft.add(*given);
  }
  if (drafts.size() == before) {
    return wrong(fmt::format("{} has no job: a section such as [read] is needed", excerpt(origin)),
                 {origin, 0});
  }
  return {};
}

Result<std::vector<Job>> make_all(const std::vector<Draft>& drafts) {
  std::vector<Job> jobs;
  for (const Draft& draft : drafts) {
    Result<Job> job = draft.make();
    PENSTOCK_TRY(job);
    jobs.push_back(std::move(*job));
  }
  return jobs;
}

/// The command line: keys before the first `--name=`, then a section a name.
Result<std::vector<IniSection>> parse_command(const std::vector<std::string>& keys) {
  std::vector<IniSection> sections(1);
  for (const std::string& text : keys) {
    if (!text.starts_with("--") || text.size() < 3 || text[2] == '=') {
      return wrong(fmt::format("\"{}\" is not --key=value", excerpt(text)));
    }
    Result<Assignment> parsed = parse_assignment(std::string_view(text).substr(2), {});
    if (parsed.has_error()) {
      return wrong("--" + parsed.error().message);
    }
    if (parsed->key == "name") {
      sections.push_back({parsed->value.value_or(""), {}, {}});
    }
    sections.back().assignments.push_back(std::move(*parsed));
  }
  return sections;
}

/// A key of the command line that no job has a use for was meant to have one.
Result<void> check_used(const std::vector<Given>& shared, const std::vector<Job>& jobs) {
  for (const Given& given : shared) {
    if (std::ranges::none_of(
            jobs, [&given](const Job& job) { return given.key->is_for(job.workload); })) {
      return refused(given.assignment, "means nothing to the workload of any of the jobs");
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Job>> load_jobs(const std::vector<std::string>& files,
                                   const std::vector<std::string>& keys) {
  const Result<std::vector<IniSection>> command = parse_command(keys);
  PENSTOCK_TRY(command);
  const bool single = files.empty() && command->size() == 1;
  if (single && keys.empty()) {
    return wrong("there is no job: give a job file, or keys such as --rw=read --size=1g");
  }
  const Result<std::vector<Given>> shared = known_keys(command->front().assignments, !single);
  PENSTOCK_TRY(shared);
  std::vector<Draft> drafts;
  for (const std::string& file : files) {
    const Result<std::string> text = read_text_file(file, kFileMax);
    PENSTOCK_TRY(text);
    PENSTOCK_TRY(add_file(*text, file, drafts));
  }
  for (Draft& draft : drafts) {
    draft.add(*shared);
  }
  for (std::size_t job = single ? 0 : 1; job < command->size(); ++job) {
    const IniSection& section = (*command)[job];
    const Result<std::vector<Given>> own = known_keys(section.assignments, false);
    PENSTOCK_TRY(own);
    Draft& draft = drafts.emplace_back(Draft{section.name, {}});
    draft.add(single ? std::vector<Given>() : *shared);
    draft.add(*own);
  }
  Result<std::vector<Job>> jobs = make_all(drafts);
  PENSTOCK_TRY(jobs);
  PENSTOCK_TRY(check_used(*shared, *jobs));
  return jobs;
}

Result<std::vector<Job>> parse_jobs(std::string_view text, const std::string& origin) {
  std::vector<Draft> drafts;
  PENSTOCK_TRY(add_file(text, origin, drafts));
  return make_all(drafts);
}

}  // namespace penstock::bench
