#include "swap/schedule/prefetch_scheduler.h"

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

#include "alloc/check.h"

namespace penstock {

using Answer = PrefetchEnvironment::Answer;

namespace {

constexpr std::size_t kMadeUpFor = 4;  // contradictions, by one use that was predicted

}  // namespace

bool PrefetchScheduler::record_event(AccessTrace::Key event) {
  const bool predicts = trace_.horizon() > 0;
  const bool predicted = trace_.record(event);
  if (predicted) {
    contradictions_ -= std::min(contradictions_, kMadeUpFor);
  } else if (predicts && trusted_uses() > 0) {
    ++contradictions_;
  }
  return predicted;
}

std::size_t PrefetchScheduler::trusted_uses() const noexcept {
  const auto bits = static_cast<std::size_t>(std::bit_width(limits_.tensors_max));
  return contradictions_ < bits ? limits_.tensors_max >> contradictions_ : 0;
}

void PrefetchScheduler::announce(TensorId tensor) {
  if (announced_.size() < limits_.tensors_max) {
    announced_.push_back(tensor);
  }
}

std::size_t PrefetchScheduler::run(PrefetchEnvironment& environment) {
  std::size_t begun = 0;
  std::size_t refusals = 0;
  PrefetchEnvironment::Before before;
  // Returns false when there is no use in looking further.
  const auto offer = [&](TensorId tensor, bool& taken) {
    const Answer answer = environment.begin_ahead(tensor, before);
    taken = answer == Answer::kBegun || answer == Answer::kNothingToDo;
    begun += answer == Answer::kBegun ? 1 : 0;
    if (answer == Answer::kNoRoom) {
      before.large_waits = true;
      ++refusals;
    }
    return answer != Answer::kStop && refusals < limits_.refusals_max;
  };
  bool go_on = true;
  for (auto at = announced_.begin(); go_on && at != announced_.end();) {
    bool taken = false;
    go_on = offer(*at, taken);
    at = taken ? announced_.erase(at) : at + 1;
  }
  begin_scan();
  const std::size_t reach = std::min(trusted_uses(), trace_.horizon());
  for (std::size_t ahead = 0; go_on && ahead < reach; ++ahead) {
    const AccessTrace::Key event = *trace_.upcoming(ahead);
    const TensorId tensor{event / 2};
    if (event % 2 == 1) {
      mark_rewritten(tensor);
      before.slot_bytes += environment.rewrite_slot_bytes(tensor);
    } else if (!is_rewritten(tensor)) {
      bool taken = false;
      go_on = offer(tensor, taken);
    } else if (is_first_use_of_rewritten(tensor)) {
      before.slot_bytes += environment.reread_slot_bytes(tensor);
    }
  }
  return begun;
}

void PrefetchScheduler::begin_scan() {
  scan_ += 2;
  if (scan_ == 0) {  // wrapped: old marks would look new
    std::fill(rewritten_in_scan_.begin(), rewritten_in_scan_.end(), 0);
    scan_ = 2;
  }
}

void PrefetchScheduler::mark_rewritten(TensorId tensor) {
  const std::uint64_t number = to_number(tensor);
  if (number >= rewritten_in_scan_.size()) {
    rewritten_in_scan_.resize(number + 1, 0);
  }
  rewritten_in_scan_[number] = scan_;
}

bool PrefetchScheduler::is_rewritten(TensorId tensor) const {
  const std::uint64_t number = to_number(tensor);
  return number < rewritten_in_scan_.size() && rewritten_in_scan_[number] >= scan_;
}

bool PrefetchScheduler::is_first_use_of_rewritten(TensorId tensor) {
  return std::exchange(rewritten_in_scan_[to_number(tensor)], scan_ + 1) == scan_;
}

TensorId PrefetchScheduler::farthest(std::span<const TensorId> tensors) const {
  PENSTOCK_CHECK(!tensors.empty(), "nothing to choose from");
  std::unordered_set<TensorId> unseen(tensors.begin(), tensors.end());
  TensorId seen_last = tensors.back();
  const std::size_t reach = std::min(limits_.tensors_max, trace_.horizon());
  for (std::size_t ahead = 0; ahead < reach && !unseen.empty(); ++ahead) {
    const AccessTrace::Key event = *trace_.upcoming(ahead);
    if (const TensorId tensor{event / 2}; event % 2 == 0 && unseen.erase(tensor) != 0) {
      seen_last = tensor;
    }
  }
  const auto out_of_sight = std::find_if(tensors.rbegin(), tensors.rend(),
                                         [&](TensorId tensor) { return unseen.contains(tensor); });
  return out_of_sight != tensors.rend() ? *out_of_sight : seen_last;
}

}  // namespace penstock
