#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "io/io_queue.h"
#include "swap/store/durable_store.h"

namespace penstock::cli {

/// The I/O thread of a verb that moves tensors, with the engine that PENSTOCK_ENGINE names.
Result<std::unique_ptr<IoQueue>> start_queue();

/// A durable store as the user names it.
struct StoreChoice {
  std::string directory;
  /// Directories outside it that its manifest may name.
  std::vector<std::string> paths;
};

/// Adds STORE and --path to a verb.
void add_store_options(CLI::App& verb, StoreChoice& choice);

Result<std::unique_ptr<DurableStore>> open_store(const StoreChoice& choice,
                                                 DurableStoreOptions::Access access);

}  // namespace penstock::cli
