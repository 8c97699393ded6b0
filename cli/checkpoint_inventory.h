#pragma once

#include <string>

#include "bindings/deepspeed/checkpoint_summary.h"
#include "cli/inventory_source.h"

namespace penstock::cli {

/// The model of a checkpoint of DeepSpeed, in the order of building: of trained parameters as the
/// checkpoint has it, of others as their names say. By way of the JSON form, whose reader trusts
/// neither names nor sizes; its errors.
Result<InventorySource> checkpoint_inventory(const CheckpointSummary& summary,
                                             const std::string& path);

}  // namespace penstock::cli
