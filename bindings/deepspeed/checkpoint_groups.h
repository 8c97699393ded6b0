#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "bindings/deepspeed/model_shard.h"
#include "bindings/deepspeed/optimizer_shard.h"

namespace penstock {

struct CheckpointSummary;

/// The groups (stage 3: sub-groups) of all ranks: what optimizer files have of them, beside the
/// parameters that the model's file says lie in them.
class CheckpointGroups {
 public:
  /// Of the model's first file, whose groups are the summary's.
  void add(const ModelShard& shard) { is_evenly_divided_ &= shard.is_evenly_divided; }
  void add(const OptimizerShard& shard);

  std::uint64_t optimizers_read() const noexcept { return optimizers_read_; }
  /// Why no load takes them; empty where it does. All files are read.
  std::vector<std::string> obstacles(const CheckpointSummary& summary) const;
  /// A sentence on moments of which the files do not say whether they are whole; else empty.
  std::string doubt() const;

 private:
  bool is_damage(const OddMoment& moment) const;

  std::vector<std::uint64_t> flat_totals_;   // by group, of all ranks
  std::vector<std::uint64_t> empty_groups_;  // by group: how many ranks have nothing of it
  std::vector<OddMoment> odd_moments_;
  std::set<std::string> whole_moments_;
  bool is_adam_ = false;
  bool is_evenly_divided_ = true;
  std::uint64_t optimizers_read_ = 0;
};

}  // namespace penstock
