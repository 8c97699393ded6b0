#include "bench/workload/swap/job_model.h"

#include <fmt/format.h>

#include <utility>

#include "bench/workload/swap/engine_options.h"
#include "bench/workload/swap/inventory_subset.h"
#include "bindings/inventory/inventory_file.h"

namespace penstock::bench {

Result<TrainingSetup> job_model(const Job& job) {
  if (job.inventory.empty()) {
    return fault(
        Fault::kConfiguration,
        fmt::format("job {} swaps the tensors of a model: say which, inventory=FILE", job.name));
  }
  Result<Inventory> inventory = load_inventory(job.inventory);
  if (inventory.has_error()) {
    return std::move(inventory).error();
  }
  Result<Config> config = job_config(job);
  if (config.has_error()) {
    return std::move(config).error();
  }
  TrainingSetup setup;
  setup.inventory = job.size == 0 ? std::move(*inventory) : inventory_subset(*inventory, job.size);
  setup.has_config = config->deepspeed.is_given;
  setup.config = *std::move(config);
  return setup;
}

}  // namespace penstock::bench
