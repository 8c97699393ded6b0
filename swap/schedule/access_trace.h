#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace penstock {

/// Records the order in which tensors are used and predicts the next ones. Training repeats itself,
/// so the prediction is what followed the last time the recent past looked like this: the trace
/// follows the occurrence whose past agrees longest with the present, and looks for another one
/// only when a use contradicts it. So phases (generation, forward, backward, update, evaluation)
/// need no marks, and a change of order costs a few wrong guesses, not a reset. Pure; not
/// thread-safe.
class AccessTrace {
 public:
  using Key = std::uint64_t;

  /// `history_max` uses are remembered; when more come, the older half is forgotten.
  explicit AccessTrace(std::size_t history_max = std::size_t{1} << 20);

  /// `key` is used now. Returns whether it was predicted as the next one. Where it throws
  /// std::bad_alloc, it was not recorded.
  bool record(Key key);

  /// The use that is expected after `ahead` others; nothing where the past predicts nothing.
  std::optional<Key> upcoming(std::size_t ahead) const;
  /// How many uses can be predicted before the known future repeats itself.
  std::size_t horizon() const noexcept;

  std::size_t size() const noexcept { return history_.size(); }

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr std::size_t kCandidatesMax = 64;  // occurrences compared when the trace is lost
  static constexpr std::size_t kMatchMax = 256;      // uses compared for each of them

  void make_room();
  std::size_t agreement(std::size_t position) const;
  void find_cursor(Key key);
  void forget_older_half();

  std::size_t history_max_;
  std::vector<Key> history_;
  std::vector<std::size_t> previous_;          // position of the same key's use before, or kNone
  std::unordered_map<Key, std::size_t> last_;  // position of the key's latest use
  std::size_t cursor_ = kNone;                 // history_[cursor_] is expected next
};

}  // namespace penstock
