#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"

namespace penstock::bench {

/// What a program is started with.
struct Command {
  std::vector<std::string> arguments;    ///< the program first; without a slash it is looked up in
                                         ///< PATH
  std::vector<std::string> environment;  ///< `NAME=value`, beside and over ours
  std::string package = {};              ///< that installs the program, for the error without it
  bool ends_at_once = false;  ///< by kill_child(): it has nothing to tidy up. One at a time
};

/// Another program that runs until it is done or until this object goes, which kills it. Move-only,
/// used by one thread.
class ChildProcess {
 public:
  /// Errors: the program is not there (names `command.package`), or cannot be started (errno).
  static Result<ChildProcess> start(const Command& command);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  /// Writes to its standard input. An error where it reads no more: then finish() says why.
  Result<void> write(std::string_view text);
  /// The next line of its output, without the line end. An error where it has ended, with what it
  /// said.
  Result<std::string> read_line();
  /// Everything that is left of its output, once it has ended. An error if it did not end well:
  /// the status or signal, and the last line that it wrote to standard error.
  Result<std::string> finish();

 private:
  ChildProcess(std::string name, pid_t process, int stdio, int errors)
      : name_(std::move(name)), process_(process), stdio_(stdio), stderr_(errors) {}

  // False: there is no more.
  Result<bool> read_more();
  // Waits for its end. Empty if it ended well, else why not.
  std::string end();
  std::string last_error_line() const;

  std::string name_;
  pid_t process_ = -1;  // -1: waited for
  int stdio_ = -1;      // a socket: its standard input and output
  int stderr_ = -1;     // a file in memory: its standard error
  std::string output_;
};

/// Kills the child that was started so, if there is one. For signal handlers.
void kill_child() noexcept;

/// For a Python (from 3.11 on) that runs `-c`: no module comes from the working directory.
inline constexpr const char* kNoLocalModules = "PYTHONSAFEPATH=1";

/// Where Python may be, best first: beside the command (a virtual environment that penstock was
/// installed into), what the PATH says, and the distribution's. Only those beside the command are
/// known to exist.
std::vector<std::string> pythons();

}  // namespace penstock::bench
