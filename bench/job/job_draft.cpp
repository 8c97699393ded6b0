#include "bench/job/job_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/excerpt.h"
#include "bench/job/job_check.h"

namespace penstock::bench {
namespace {

Error refused(const Assignment& assignment, std::string_view what) {
  Error error = fault(Fault::kConfiguration, fmt::format("{} {}", given_place(assignment), what));
  error.path = assignment.place.file;
  return error;
}

std::string workload_names(const WorkloadSet& workloads) {
  std::vector<std::string_view> names;
  for (const Workload workload :
       {Workload::kRaw, Workload::kSwap, Workload::kUpdate, Workload::kReplay}) {
    if (workloads.contains(workload)) {
      names.push_back(workload_name(workload));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

bool is_named(const GivenKey& given, std::string_view name) {
  return given.key->name == name;
}

Result<void> apply(const GivenKey& given, Job& job) {
  const Assignment& assignment = *given.assignment;
  // Shared by several jobs a name would be all of theirs.
  if (given.is_shared && is_named(given, "name")) {
    return {};
  }
  if (!given.key->workloads.contains(job.workload)) {
    if (given.is_shared) {
      return {};
    }
    return refused(assignment,
                   fmt::format("means nothing to workload={}; it is for {}",
                               workload_name(job.workload), workload_names(given.key->workloads)));
  }
  const std::string value = assignment.value.value_or("1");
  if (const Refusal refusal = given.key->read(value, job)) {
    return refused(assignment, fmt::format("is \"{}\"; {}", excerpt(value), *refusal));
  }
  return {};
}

}  // namespace

Result<std::vector<GivenKey>> known_keys(std::span<const Assignment> assignments, bool is_shared) {
  std::vector<GivenKey> known;
  for (const Assignment& assignment : assignments) {
    const JobKey* key = find_job_key(assignment.key);
    if (key == nullptr) {
      const bool is_hidden = assignment.place.is_included && !resembles_job_key(assignment.key);
      return is_hidden ? hidden_line(assignment.place)
                       : refused(assignment, unknown_job_key(assignment.key));
    }
    if (!assignment.value && !key->stands_alone) {
      return refused(assignment, fmt::format("needs a value: {}=…", key->name));
    }
    known.push_back({key, &assignment, is_shared});
  }
  return known;
}

std::string given_place(const Assignment& assignment) {
  return fmt::format("{}{}{}", assignment.place.file.empty() ? "--" : "", excerpt(assignment.key),
                     assignment.place.text());
}

void JobDraft::add(std::span<const GivenKey> given) {
  given_.insert(given_.end(), given.begin(), given.end());
}

void JobDraft::add_over(std::span<const GivenKey> given) {
  if (std::ranges::any_of(given, [](const GivenKey& one) { return is_named(one, "bs"); })) {
    std::erase_if(given_, [](const GivenKey& one) { return is_named(one, "bssplit"); });
  }
  add(given);
}

Result<Job> JobDraft::make() const {
  std::vector<GivenKey> ordered = given_;
  std::ranges::stable_sort(ordered, {}, &GivenKey::key);  // they point into one table
  Job job;
  job.name = name_;
  for (const GivenKey& given : ordered) {
    if (job.name.empty() && !is_named(given, "workload")) {
      job.name = workload_name(job.workload);
    }
    PENSTOCK_TRY(apply(given, job));
  }
  if (job.name.empty()) {
    job.name = workload_name(job.workload);
  }
  Result<void> sensible = check_job(job, place_.text());
  if (sensible.has_error()) {
    Error error = std::move(sensible).error();
    error.path = place_.file;
    return error;
  }
  return job;
}

}  // namespace penstock::bench
