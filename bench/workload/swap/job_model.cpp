#include "bench/workload/swap/job_model.h"

#include <utility>

#include "bench/workload/swap/inventory_subset.h"
#include "bench/workload/swap/swap_session.h"
#include "bindings/inventory/inventory_file.h"

namespace penstock::bench {

Result<TrainingSetup> job_model(const Job& job) {
  Result<Inventory> inventory = load_inventory(job.inventory);
  if (inventory.has_error()) {
    return std::move(inventory).error();
  }
  Result<Config> config = job_config(job);
  if (config.has_error()) {
    return std::move(config).error();
  }
  TrainingSetup setup;
  const double share = static_cast<double>(inventory->bytes()) * job.size_percent / 100;
  const std::uint64_t bytes = job.size_percent != 0 ? static_cast<std::uint64_t>(share) : job.size;
  setup.inventory = bytes == 0 ? std::move(*inventory) : inventory_subset(*inventory, bytes);
  setup.has_config = config->deepspeed.is_given;
  setup.config = *std::move(config);
  return setup;
}

}  // namespace penstock::bench
