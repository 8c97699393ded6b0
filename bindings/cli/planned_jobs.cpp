#include "bindings/cli/planned_jobs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "bench/workload/swap/engine_options.h"
#include "bench/workload/swap/job_model.h"
#include "bench/workload/swap/swap_device.h"
#include "bindings/cli/machine_facts.h"
#include "bindings/cli/plan_text.h"
#include "bindings/deepspeed/swap_plan.h"

namespace penstock::cli {
namespace {

using bench::Job;
using bench::PlannedJobs;

bool has_plan(const Job& job) {
  return !job.inventory.empty() &&
         (job.workload == bench::Workload::kSwap || job.workload == bench::Workload::kUpdate);
}

// A simulated machine has the memory that its engine is given.
MachineFacts facts_for(const Job& job, const Config& config) {
  if (job.simulated && !job.simulated->real_time) {
    return {.mem_available_bytes = bench::kSimulatedMemoryBytes, .memlock_bytes = {}, .paths = {}};
  }
  return read_machine_facts(bench::store_paths(job, config));
}

std::string plan_of(const Job& job) {
  Result<TrainingSetup> setup = bench::job_model(job);
  if (setup.has_error()) {
    return "There is no plan: " + setup.error().message;
  }
  setup->ranks_on_node = std::max(job.numjobs, 1U);
  const MachineFacts machine = facts_for(job, setup->config);
  return plan_text(make_swap_plan(std::move(*setup), machine));
}

}  // namespace

std::vector<PlannedJobs> planned_jobs(const std::vector<Job>& jobs) {
  std::vector<PlannedJobs> plans;
  for (const Job& job : jobs) {
    if (!has_plan(job)) {
      continue;
    }
    std::string text = plan_of(job);
    const auto same = std::ranges::find(plans, text, &PlannedJobs::text);
    if (same != plans.end()) {
      same->names.push_back(job.name);
    } else {
      plans.push_back({{job.name}, std::move(text)});
    }
  }
  return plans;
}

}  // namespace penstock::cli
