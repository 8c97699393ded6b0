#include "swap/schedule/prefetch_scheduler.h"

#include <algorithm>
#include <unordered_set>

#include "alloc/check.h"

namespace penstock {

using Answer = PrefetchSurroundings::Answer;

void PrefetchScheduler::announce(AccessTrace::Key key) {
  if (announced_.size() < limits_.tensors_max) {
    announced_.push_back(key);
  }
}

std::size_t PrefetchScheduler::run(PrefetchSurroundings& surroundings) {
  std::size_t begun = 0;
  std::size_t refusals = 0;
  bool large_waits = false;
  // Returns false when there is no use in looking further.
  const auto offer = [&](AccessTrace::Key key, bool& taken) {
    const Answer answer = surroundings.begin_ahead(key, large_waits);
    taken = answer == Answer::kBegun || answer == Answer::kNothingToDo;
    begun += answer == Answer::kBegun ? 1 : 0;
    if (answer == Answer::kNoRoom) {
      large_waits = true;
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
  const std::size_t reach = std::min(limits_.tensors_max, trace_.horizon());
  for (std::size_t ahead = 0; go_on && ahead < reach; ++ahead) {
    const AccessTrace::Key event = *trace_.upcoming(ahead);
    const AccessTrace::Key key = event / 2;
    if (event % 2 == 1) {
      mark_rewritten(key);
    } else if (!is_rewritten(key)) {
      bool taken = false;
      go_on = offer(key, taken);
    }
  }
  return begun;
}

void PrefetchScheduler::begin_scan() {
  if (++scan_ == 0) {  // wrapped: old marks would look new
    std::fill(rewritten_in_scan_.begin(), rewritten_in_scan_.end(), 0);
    scan_ = 1;
  }
}

void PrefetchScheduler::mark_rewritten(AccessTrace::Key key) {
  if (key >= rewritten_in_scan_.size()) {
    rewritten_in_scan_.resize(key + 1, 0);
  }
  rewritten_in_scan_[key] = scan_;
}

bool PrefetchScheduler::is_rewritten(AccessTrace::Key key) const {
  return key < rewritten_in_scan_.size() && rewritten_in_scan_[key] == scan_;
}

AccessTrace::Key PrefetchScheduler::farthest(std::span<const AccessTrace::Key> keys) const {
  PENSTOCK_CHECK(!keys.empty(), "nothing to choose from");
  std::unordered_set<AccessTrace::Key> unseen(keys.begin(), keys.end());
  AccessTrace::Key seen_last = keys.back();
  const std::size_t reach = std::min(limits_.tensors_max, trace_.horizon());
  for (std::size_t ahead = 0; ahead < reach && !unseen.empty(); ++ahead) {
    const AccessTrace::Key event = *trace_.upcoming(ahead);
    if (event % 2 == 0 && unseen.erase(event / 2) != 0) {
      seen_last = event / 2;
    }
  }
  const auto out_of_sight = std::find_if(
      keys.rbegin(), keys.rend(), [&](AccessTrace::Key key) { return unseen.contains(key); });
  return out_of_sight != keys.rend() ? *out_of_sight : seen_last;
}

}  // namespace penstock
