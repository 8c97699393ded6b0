#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "alloc/bytes.h"
#include "bindings/deepspeed/rank_tensors.h"
#include "bindings/deepspeed/swap_plan.h"
#include "tests/plan/plan_fixture.h"

namespace penstock::test {

/// The machine of the baseline: 24 GiB, nothing else in the way.
inline MachineFacts baseline_machine() {
  MachineFacts machine;
  machine.mem_available_bytes = 24 * kGiB;
  return machine;
}

inline TrainingSetup setup_without_config(Inventory inventory) {
  TrainingSetup setup;
  setup.inventory = std::move(inventory);
  return setup;
}

inline TrainingSetup setup_with(Inventory inventory, Config config) {
  TrainingSetup setup;
  setup.inventory = std::move(inventory);
  setup.has_config = config.deepspeed.is_given;
  setup.stage = setup.has_config ? config.deepspeed.stage : 3;
  setup.optimizer = optimizer_of_type(config.deepspeed.optimizer_type);
  setup.config = std::move(config);
  return setup;
}

inline TrainingSetup setup_with(Inventory inventory, std::string_view config_json) {
  return setup_with(std::move(inventory), parse_config(config_json, "test.json").value());
}

inline std::vector<PlanTensor> rank_tensors(const TrainingSetup& setup) {
  return penstock::rank_tensors(setup, moment_chunks(setup));
}

/// The placement of the tensor called `name`.
inline const PlacedTensor& placed(const SwapPlan& plan, std::string_view name) {
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    if (plan.tensors[i].name == name) {
      return plan.placement.tensors[i];
    }
  }
  ADD_FAILURE() << "no tensor " << name;
  static const PlacedTensor kNone;
  return kNone;
}

}  // namespace penstock::test
