#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "swap/plan/budgets.h"
#include "swap/plan/chunk_shape.h"
#include "swap/plan/engine_config.h"
#include "swap/plan/plan_tensor.h"

namespace penstock {

/// Contents may wait for their drive in this much pageable memory beyond what callers hold anyway,
/// so that the next read need not wait for the last byte of a write.
inline constexpr std::uint64_t kWriteBackSlackBytes = 256 * kMiB;

struct PlacedTensor {
  std::string name;
  std::uint64_t bytes = 0;
  Place place = Place::kClass;
  std::optional<std::uint32_t> class_index;  ///< into Placement::classes where place is kClass
  std::uint32_t why = 0;                     ///< into Placement::whys
};

struct PlacedClass {
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  std::uint32_t tensors = 0;
  std::uint64_t waste_bytes =
      0;            ///< over all slots, slot minus the largest bytes put there at the peak
  std::string why;  ///< why so many slots
};

struct Placement {
  std::vector<PlacedClass> classes;   ///< ascending by slot_bytes
  std::vector<PlacedTensor> tensors;  ///< as given
  /// For a user: which rule or number decided. Many tensors share a text; the first one is empty.
  std::vector<std::string> whys{""};
  std::uint64_t pinned_bytes = 0;   ///< slots, dedicated buffers and staging
  std::uint64_t staging_bytes = 0;  ///< of them staging; 0 where nothing lies on a drive
  std::uint64_t peak_live_bytes =
      0;                         ///< bytes of tensors in pinned memory when every slot is taken
  std::uint64_t ram_bytes = 0;   ///< residents
  std::uint64_t nvme_bytes = 0;  ///< what lies on the drives (padded to 4 KiB)
  Budgets budgets;               ///< as used: ram raised for rules where it was not given

  /// So many tensors that follow one another in use have a slot each, wherever one begins.
  std::uint64_t window_tensors = 0;

  const std::string& why_of(const PlacedTensor& tensor) const { return whys[tensor.why]; }
  std::vector<ClassPlan> pool() const;
};

/// Slot bytes of the largest regular class, for BudgetFacts: outliers by the configuration or by
/// their lone size, and what rules send elsewhere, are left out. 0 where nothing is swapped.
std::uint64_t largest_regular_slot_bytes(const std::vector<PlanTensor>& tensors,
                                         const EngineConfig& config);

/// Chooses every tensor's fate within the budgets: rules first, then residents by saved bytes per
/// byte, then classes for what is regular, a buffer of its own or streaming for outliers. Pure and
/// deterministic; the runtime and `penstock plan` call this same function. Errors
/// (Fault::kConfiguration / kExhausted): a rule's demand that the given budgets cannot hold; names
/// rule, tensor, the number that is too small and the smallest value that works. Budgets that were
/// not given are raised for rules instead (max_pinned_bytes up to the quarter).
Result<Placement> place_tensors(const std::vector<PlanTensor>& tensors, const EngineConfig& config,
                                const Budgets& budgets);

}  // namespace penstock
