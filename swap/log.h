#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "alloc/out_of_memory.h"
#include "swap/warning.h"

namespace penstock {

// The log: one line for each decision of an engine, on stderr or in PENSTOCK_LOG_FILE, from
// PENSTOCK_LOG_LEVEL on. docs/TUNING.md shows the lines. All of this is thread-safe and may be
// called under the engine's lock and on the I/O thread: a thread of the log's own writes, and where
// that cannot keep up, the oldest lines are dropped and counted.

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError, kOff };

/// The kind of decision that a line reports.
enum class LogEvent : std::uint8_t {
  kPlace,      ///< where the plan puts a tensor
  kEvict,      ///< a content in memory is given up for another, or for a new plan
  kSkipAhead,  ///< a tensor that is needed next is not read ahead yet
  kFallback,   ///< the second best way is taken
  kRefuse,     ///< an operation fails, or a drive or a budget refuses something
  kRetry,      ///< what failed is begun again
  kNote,       ///< how the engine was set up
};

std::string_view log_event_name(LogEvent event) noexcept;

/// The lowest level that is written.
inline std::atomic<LogLevel> log_threshold{LogLevel::kWarning};

inline bool log_enabled(LogLevel level) noexcept {
  return level >= log_threshold.load(std::memory_order_relaxed);
}

/// Takes level and file from the environment, which may have changed. Each engine that opens calls
/// it.
void read_log_settings();

/// `tensor` may be empty.
void write_log_line(LogLevel level, LogEvent event, std::string_view tensor,
                    const std::string& reason);

/// `reason()` makes the text; it is called where the line is written, and only there.
template <class Reason>
void log_event(LogLevel level, LogEvent event, std::string_view tensor, Reason reason) noexcept {
  if (log_enabled(level)) {
    if_memory_allows(
        [&]() PENSTOCK_CALLERS_LOCKS { write_log_line(level, event, tensor, reason()); });
  }
}

/// Why the engine does what it does with `tensor`.
template <class Reason>
void log_decision(LogEvent event, std::string_view tensor, Reason reason) noexcept {
  log_event(LogLevel::kDebug, event, tensor, std::move(reason));
}

/// What concerns the engine, not one tensor.
template <class Reason>
void log_info(LogEvent event, Reason reason) noexcept {
  log_event(LogLevel::kInfo, event, {}, std::move(reason));
}

void log_warning(const Warning& warning) noexcept;

/// The environment asks for a log: then it has the warnings that callers take as well.
bool log_is_asked_for() noexcept;

/// What was logged so far is written, or a second has passed. Not under a lock.
void flush_log() noexcept;

}  // namespace penstock
