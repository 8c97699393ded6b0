#include "swap/schedule/access_trace.h"

#include <algorithm>

namespace penstock {

AccessTrace::AccessTrace(std::size_t history_max)
    : history_max_(std::max<std::size_t>(history_max, 16)) {}

bool AccessTrace::record(Key key) {
  make_room();
  const auto [known, is_new] = last_.try_emplace(key, kNone);  // the last thing that may fail
  const bool predicted = cursor_ != kNone && history_[cursor_] == key;
  if (predicted) {
    ++cursor_;
  } else {
    find_cursor(key);
  }
  previous_.push_back(known->second);
  known->second = history_.size();
  history_.push_back(key);
  if (history_.size() > history_max_) {
    forget_older_half();
  }
  return predicted;
}

std::optional<AccessTrace::Key> AccessTrace::upcoming(std::size_t ahead) const {
  if (cursor_ == kNone) {
    return std::nullopt;
  }
  // Past the end of what is known, the stretch from the cursor to now comes again: it is one
  // period.
  return history_[cursor_ + ahead % horizon()];
}

std::size_t AccessTrace::horizon() const noexcept {
  return cursor_ == kNone ? 0 : history_.size() - cursor_;
}

void AccessTrace::make_room() {
  const std::size_t size = history_.size() + 1;
  if (size > history_.capacity()) {
    history_.reserve(2 * size);
  }
  if (size > previous_.capacity()) {
    previous_.reserve(2 * size);
  }
}

/// How many uses before `position` equal the latest uses, counted backwards.
std::size_t AccessTrace::agreement(std::size_t position) const {
  const std::size_t limit = std::min(position, kMatchMax);
  std::size_t length = 0;
  while (length < limit &&
         history_[position - 1 - length] == history_[history_.size() - 1 - length]) {
    ++length;
  }
  return length;
}

/// Called before `key` is appended: continues after the occurrence of `key` with the most similar
/// past.
void AccessTrace::find_cursor(Key key) {
  cursor_ = kNone;
  const auto known = last_.find(key);
  std::size_t position = known == last_.end() ? kNone : known->second;
  std::size_t best = 0;
  for (std::size_t seen = 0; position != kNone && seen < kCandidatesMax; ++seen) {
    const std::size_t length = agreement(position);
    if (cursor_ == kNone || length > best) {
      best = length;
      cursor_ = position + 1;
    }
    if (best >= kMatchMax) {
      break;
    }
    position = previous_[position];
  }
}

void AccessTrace::forget_older_half() {
  const std::size_t drop = history_.size() / 2;
  const auto distance = static_cast<std::ptrdiff_t>(drop);
  history_.erase(history_.begin(), history_.begin() + distance);
  previous_.erase(previous_.begin(), previous_.begin() + distance);
  for (std::size_t& position : previous_) {
    position = position == kNone || position < drop ? kNone : position - drop;
  }
  std::erase_if(last_, [drop](const auto& entry) { return entry.second < drop; });
  for (auto& [key, position] : last_) {
    position -= drop;
  }
  cursor_ = cursor_ == kNone || cursor_ < drop ? kNone : cursor_ - drop;
}

}  // namespace penstock
