#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "alloc/process_mark.h"
#include "swap/log.h"

namespace spdlog {
class logger;
namespace details {
class thread_pool;
}
}  // namespace spdlog

namespace penstock {

/// What PENSTOCK_LOG_LEVEL and PENSTOCK_LOG_FILE say.
struct LogSettings {
  LogLevel level = LogLevel::kWarning;
  std::string file;           ///< empty: stderr
  bool is_asked_for = false;  ///< one of the two is set

  static LogSettings from_environment();
  bool operator==(const LogSettings&) const = default;
};

/// Writes lines where `settings` say: spdlog's asynchronous logger, whose thread begins with it. A
/// line of a log that was asked for has time, level, rank and process; without one, warnings are
/// for a terminal. It is never destroyed, since any thread may be about to use it: stop() ends it.
/// Thread-safe.
class LogWriter {
 public:
  /// `previous` stays reachable from here. Null: there was none.
  explicit LogWriter(LogSettings settings, const LogWriter* previous = nullptr);
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  const LogSettings& settings() const noexcept { return settings_; }
  /// A forked child has no such thread, and the locks may be held for ever: it makes its own.
  bool elsewhere() const noexcept { return process_.elsewhere(); }

  /// Of control characters come spaces, so that it is one line. Never waits for the file.
  void write(LogLevel level, std::string line);
  /// What was written so far is in the file, or a second has passed.
  void flush();
  /// Writes what is left, says how many lines are missing, and ends the thread. Lines that come
  /// later are written by those who log them.
  void stop();

 private:
  class Output;

  void begin_thread();
  std::uint64_t dropped() const;

  const LogSettings settings_;
  const LogWriter* const previous_;
  const ProcessMark process_;
  std::shared_ptr<Output> output_;
  std::mutex ending_;
  std::shared_ptr<spdlog::details::thread_pool> thread_;  // null: there is none; guarded by ending_
  std::shared_ptr<spdlog::logger> behind_;                // by the thread
  std::shared_ptr<spdlog::logger> at_once_;
  std::shared_ptr<std::atomic<std::uint64_t>> lost_;  // lines that spdlog could not take
  std::atomic<std::uint64_t> given_{0};               // lines, to the thread
  std::atomic<bool> is_stopped_{false};
};

}  // namespace penstock
