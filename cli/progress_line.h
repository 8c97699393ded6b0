#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace penstock::cli {

/// One line on the terminal that says how far long work has come and when it will be done; nothing
/// where stderr is no terminal. Gone when this object is.
class ProgressLine {
 public:
  /// "imported" for `412.0 MiB of 1.1 GiB imported`.
  explicit ProgressLine(std::string done_word = {});
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// As often as one likes: it is shown some times a second.
  void update(std::uint64_t done_bytes, std::uint64_t total_bytes);
  /// The same for a line that the caller makes.
  void show(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  bool is_due();

  std::string done_word_;
  bool on_terminal_;
  bool shown_ = false;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_at_ = begun_;
};

}  // namespace penstock::cli
