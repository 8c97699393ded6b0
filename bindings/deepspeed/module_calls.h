#pragma once

#include <cstddef>
#include <vector>

#include "bindings/deepspeed/training_setup.h"

namespace penstock {

/// A call of a module as DeepSpeed's coordinator sees it.
struct ModuleCall {
  std::vector<std::size_t> parameters;  ///< its own, by their place in the inventory; often none
  /// DeepSpeed misses its end: a backward whose input needs no gradient, as token numbers.
  bool is_left_open = false;
};

/// The calls of one pass, forward and then backward, as the names tell them. A parameter belongs to
/// the module that its name has before the last dot; the modules around it, which have none of
/// their own, are called as well, except for lists. Order is that of use, heads last; without a
/// trace, that of the inventory with a layer's norms where models call them. Tied names (guessed
/// where the inventory does not know them) are modules of their own. What computes from nothing
/// trained has no backward: modules before the first trained parameter, other projections of its
/// input, and frozen embeddings. Pure.
std::vector<ModuleCall> module_calls(const TrainingSetup& setup);

}  // namespace penstock
