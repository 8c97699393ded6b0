#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace penstock::cli {

/// One line on the terminal that stderr is: how far long work has come and when it will be done.
/// Gone when this object is. Where it is shown without a terminal, each state is a line of its own.
class ProgressLine {
 public:
  /// `done_word`: "imported" for `412.0 MiB of 1.1 GiB imported`. `when`: always, never or auto (on
  /// a terminal). With an interval each state that comes after so much time is a line of its own,
  /// whatever `when` says.
  explicit ProgressLine(std::string done_word = {}, const std::string& when = "auto",
                        std::optional<std::chrono::nanoseconds> interval = {});
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// As often as one likes: it is shown some times a second.
  void update(std::uint64_t done_bytes, std::uint64_t total_bytes);
  /// The same for a line that the caller makes once it is due; from one thread at a time.
  bool is_due();
  void show(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  std::string done_word_;
  bool on_terminal_;
  std::chrono::nanoseconds interval_;
  bool enabled_;
  bool shown_ = false;
  Clock::time_point begun_ = Clock::now();
  Clock::time_point shown_at_ = begun_;
};

}  // namespace penstock::cli
