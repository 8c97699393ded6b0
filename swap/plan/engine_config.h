#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/engine_probe.h"
#include "swap/plan/integrity_level.h"
#include "swap/plan/path_config.h"
#include "swap/plan/store_mode.h"
#include "swap/plan/tensor_rule.h"

namespace penstock {

/// The settings of an engine, each with a default. Messages name a setting as its member is called,
/// which is the key that users write.
struct EngineConfig {
  std::optional<std::uint64_t> max_pinned_bytes;
  std::optional<std::uint64_t> ram_bytes;
  EngineKind engine = EngineKind::kAuto;
  IntegrityLevel integrity = IntegrityLevel::kSampled;
  StoreMode mode = StoreMode::kScratch;
  std::vector<std::uint64_t> size_classes;  ///< slot bytes, ascending; empty: by the plan
  std::vector<PathConfig> paths;  ///< of stores that are opened without paths of their own
  std::vector<TensorRule> tensors;

  // What follows from keys of other names, if users write any.

  /// Pinned memory and residents together, where ram_bytes is not given: residents get what
  /// max_pinned_bytes leaves of it.
  std::uint64_t memory_bytes = 0;
  /// Tensors of more than so many bytes are outliers, by the setting of this name; 0: none are.
  struct Outliers {
    std::uint64_t above_bytes = 0;
    std::string setting = "the limit of regular tensors";
  } outliers;
  /// The setting that asks for contents to go straight between drives and devices; empty: none
  /// does.
  std::string direct_storage_setting;
  /// Sentences about settings that stand where nothing reads them. An engine that opens warns of
  /// each.
  std::vector<std::string> unread;
};

}  // namespace penstock
