#include "swap/log.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

#include "alloc/excerpt.h"
#include "swap/log_writer.h"

namespace penstock {
namespace {

// Never freed: a thread may be about to write. No lock, since a forked child could find it held.
std::atomic<LogWriter*> current{nullptr};

/// Where an exit calls it; in a child that has written nothing the writer is its parent's.
void stop_at_exit() {
  LogWriter* const writer = current.load();
  if (writer != nullptr && !writer->elsewhere()) {
    try {
      writer->stop();
    } catch (const std::exception&) {
      // The process ends without its last lines.
    }
  }
}

/// In place of `replaced`. Null: another thread was faster.
LogWriter* install(LogSettings settings, LogWriter* replaced) {
  static std::atomic<bool> stops_at_exit{false};
  auto made = std::make_unique<LogWriter>(std::move(settings), replaced);
  if (!current.compare_exchange_strong(replaced, made.get())) {
    made->stop();
    return nullptr;
  }
  if (!stops_at_exit.exchange(true)) {
    static_cast<void>(std::atexit(stop_at_exit));
  }
  return made.release();
}

LogWriter& writer() {
  while (true) {
    LogWriter* found = current.load();
    if (found == nullptr || found->elsewhere()) {
      found = install(LogSettings::from_environment(), found);
    }
    if (found != nullptr) {
      return *found;
    }
  }
}

/// For what must not stop training, nor a destructor.
template <class Function>
void quietly(Function function) noexcept {
  try {
    function();
  } catch (const std::exception&) {
    // A line less.
  }
}

std::atomic<bool> is_asked_for{false};

void take(const LogSettings& settings) {
  log_threshold.store(settings.level, std::memory_order_relaxed);
  is_asked_for.store(settings.is_asked_for, std::memory_order_relaxed);
}

// For what is logged before any engine opens.
[[maybe_unused]] const bool is_taken = [] {
  quietly([] { take(LogSettings::from_environment()); });
  return true;
}();

}  // namespace

std::string_view log_event_name(LogEvent event) noexcept {
  switch (event) {
    case LogEvent::kPlace:
      return "place";
    case LogEvent::kEvict:
      return "evict";
    case LogEvent::kSkipAhead:
      return "skip-ahead";
    case LogEvent::kFallback:
      return "fallback";
    case LogEvent::kRefuse:
      return "refuse";
    case LogEvent::kRetry:
      return "retry";
    case LogEvent::kNote:
      return "note";
  }
  return "?";
}

void read_log_settings() {
  LogSettings settings = LogSettings::from_environment();
  take(settings);
  LogWriter* const found = current.load();
  const bool is_ours = found != nullptr && !found->elsewhere();
  const bool is_wanted = is_ours ? found->settings() != settings
                                 : settings.is_asked_for && settings.level < LogLevel::kOff;
  // Here, rather than under the engine's lock when the first line comes: it opens a file.
  if (is_wanted && install(std::move(settings), found) != nullptr && is_ours) {
    found->stop();
  }
}

void write_log_line(LogLevel level, LogEvent event, std::string_view tensor,
                    const std::string& reason) {
  quietly([&] {
    writer().write(level, tensor.empty() ? fmt::format("{} {}", log_event_name(event), reason)
                                         : fmt::format("{} tensor='{}' {}", log_event_name(event),
                                                       excerpt(tensor), reason));
  });
}

void log_warning(const Warning& warning) noexcept {
  if (log_enabled(LogLevel::kWarning)) {
    quietly([&] { writer().write(LogLevel::kWarning, warning.line()); });
  }
}

bool log_is_asked_for() noexcept {
  return is_asked_for.load(std::memory_order_relaxed);
}

void flush_log() noexcept {
  LogWriter* const found = current.load();
  if (found != nullptr && !found->elsewhere()) {
    quietly([&] { found->flush(); });
  }
}

}  // namespace penstock
