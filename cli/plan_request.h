#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/deepspeed/swap_plan.h"
#include "cli/config_source.h"

namespace penstock::cli {

/// What a user asks to be planned: the options that `plan` and `tune` share.
struct PlanRequest {
  std::vector<std::string> inventories;
  std::string trace;
  std::string config;
  std::optional<std::uint32_t> world_size;
  std::optional<std::uint32_t> ranks_per_node;
  std::optional<std::uint32_t> stage;
  std::string optimizer;
  std::string dtype;
  std::vector<std::string> trainable;
  std::vector<std::string> adapters;
  bool generation = false;
  std::string activations;
  std::string max_pinned;
  std::string ram;
  std::string memory;
  std::string drive;

  /// --config, else PENSTOCK_CONFIG; empty: none.
  std::string config_path() const;
  /// A configuration with the command line over it. Errors: the configuration's.
  Result<Config> read_config(const ConfigSource& source) const;
  /// The plan for a configuration on this machine. `source` is what it was read from: what its
  /// launcher says counts where the command line says nothing. Errors: those of inventories and
  /// traces.
  Result<SwapPlan> make_plan(Config planned, const ConfigSource& source) const;
};

/// Declares the options; `request` outlives the verb's parsing.
void add_job_options(CLI::App& verb, PlanRequest& request);
void add_budget_options(CLI::App& verb, PlanRequest& request);
/// Of `plan` alone: `tune` measures the drives.
void add_drive_option(CLI::App& verb, PlanRequest& request);

}  // namespace penstock::cli
