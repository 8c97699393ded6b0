#pragma once

namespace penstock::cli {

/// While it lives, the first Ctrl-C (or SIGTERM, or SIGHUP of a terminal that is gone) is a wish
/// that the program looks at when it can, and the second one ends the process at once. One at a
/// time; a signal that was ignored before (`nohup`, a job in the background of a script) stays
/// ignored.
class Interruption {
 public:
  /// `at_signal` is called at each of them, within the signal handler; may be null.
  explicit Interruption(void (*at_signal)() = nullptr);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  bool asked_for() const noexcept;
};

}  // namespace penstock::cli
