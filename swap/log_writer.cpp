#include "swap/log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <system_error>
#include <utility>

#include "alloc/lower_case.h"
#include "alloc/result.h"
#include "swap/rank.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

// That wait for the file: of a plan, each tensor has one.
constexpr std::size_t kLinesMax = 16384;
constexpr std::size_t kWarningsMax = 256;
constexpr std::chrono::seconds kPatience{1};
constexpr int kPollMs = 100;
constexpr mode_t kFileMode = 0600;

struct NamedLevel {
  std::string_view name;
  LogLevel level;
};
constexpr std::array kLevels = {
    NamedLevel{"trace", LogLevel::kTrace},     NamedLevel{"debug", LogLevel::kDebug},
    NamedLevel{"info", LogLevel::kInfo},       NamedLevel{"warn", LogLevel::kWarning},
    NamedLevel{"warning", LogLevel::kWarning}, NamedLevel{"error", LogLevel::kError},
    NamedLevel{"off", LogLevel::kOff},
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  constexpr std::array levels = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                 spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};
  return levels[static_cast<std::size_t>(level)];
}

/// Signals are the program's, and none of its handlers runs on the log's thread.
void begin_on_thread() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "penstock-log");
}

/// `2026-11-24T10:01:12.123456Z debug rank=0 pid=123 text`, or for a terminal `penstock: warning:
/// text`. Universal time, which this computes itself: the C library's functions take a lock that a
/// forked child may find held for ever.
class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(bool is_dated)
      : is_dated_(is_dated), process_(fmt::format("rank={} pid={}", process_rank(), ::getpid())) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override {
    const std::string_view level = kLevelNames[static_cast<std::size_t>(message.level)];
    const std::string_view text(message.payload.data(), message.payload.size());
    if (is_dated_) {
      append_time(message.time, line);
      fmt::format_to(std::back_inserter(line), " {} {} {}\n", level, process_, text);
    } else {
      fmt::format_to(std::back_inserter(line), "penstock: {}: {}\n", level, text);
    }
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<LineFormatter>(*this);
  }

 private:
  static constexpr std::array<std::string_view, 6> kLevelNames = {"trace",   "debug", "info",
                                                                  "warning", "error", "critical"};

  static void append_time(spdlog::log_clock::time_point time, spdlog::memory_buf_t& line) {
    const auto day = std::chrono::floor<std::chrono::days>(time);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::microseconds>(time - day));
    fmt::format_to(std::back_inserter(line), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
                   static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                   static_cast<unsigned>(date.day()), clock.hours().count(),
                   clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
  }

  bool is_dated_;
  std::string process_;
};

}  // namespace

LogSettings LogSettings::from_environment() {
  LogSettings settings;
  const std::string level = lower_case(variable("PENSTOCK_LOG_LEVEL"));
  const auto* const known = std::ranges::find(kLevels, level, &NamedLevel::name);
  if (known != kLevels.end()) {
    settings.level = known->level;
  }
  settings.file = process_path(variable("PENSTOCK_LOG_FILE"));
  settings.is_asked_for = !level.empty() || !settings.file.empty();
  return settings;
}

/// One write(2) a line, so that lines of several processes do not mix.
class LogWriter::Output final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Output(int file) : file_(file) {}
  ~Output() override {
    if (file_ != STDERR_FILENO) {
      ::close(file_);
    }
  }

  /// Until so many lines have come, of which `dropped()` never will; at most a second.
  template <class Dropped>
  void await(std::uint64_t lines, Dropped dropped) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, kPatience, [&] { return lines_ + dropped() >= lines; });
  }
  /// Lines that the file did not take, and errno of the last.
  std::pair<std::uint64_t, int> refused() {
    const std::lock_guard lock(mutex_);
    return {refused_, error_};
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const int error = write_out({line.data(), line.size()});
    if (error != 0) {
      ++refused_;
      error_ = error;
    }
    ++lines_;
    came_.notify_all();
  }
  void flush_() override {}

  /// errno, 0: it is written.
  int write_out(std::string_view left) const {
    const Clock::time_point give_up = Clock::now() + kPatience;
    while (!left.empty()) {
      const ssize_t written = ::write(file_, left.data(), left.size());
      if (written > 0) {
        left.remove_prefix(static_cast<std::size_t>(written));
      } else if (written < 0 && errno == EAGAIN && Clock::now() < give_up) {
        pollfd room{file_, POLLOUT, 0};
        ::poll(&room, 1, kPollMs);
      } else if (written == 0 || errno != EINTR) {
        return written == 0 ? EIO : errno;
      }
    }
    return 0;
  }

  const int file_;
  std::condition_variable came_;
  std::uint64_t lines_ = 0;  // guarded by mutex_, as below
  std::uint64_t refused_ = 0;
  int error_ = 0;
};

LogWriter::LogWriter(LogSettings settings, const LogWriter* previous)
    : settings_(std::move(settings)),
      previous_(previous),
      lost_(std::make_shared<std::atomic<std::uint64_t>>(0)) {
  int file = STDERR_FILENO;
  int refusal = 0;
  if (!settings_.file.empty()) {
    // A pipe that nothing reads is refused, where a blocking open() would wait for a reader.
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
    file = ::open(settings_.file.c_str(), kFlags, kFileMode);
    refusal = file < 0 ? errno : 0;
  }
  output_ = std::make_shared<Output>(file < 0 ? STDERR_FILENO : file);
  at_once_ = std::make_shared<spdlog::logger>("penstock", output_);
  begin_thread();
  for (const std::shared_ptr<spdlog::logger>& logger : {at_once_, behind_}) {
    logger->set_level(spdlog::level::trace);  // log_threshold decides
    logger->set_formatter(std::make_unique<LineFormatter>(settings_.is_asked_for));
    logger->set_error_handler([lost = lost_](const std::string&) { ++*lost; });
  }
  if (refusal != 0) {
    const Error error = system_error(
        refusal, fmt::format("the log goes to stderr: {} (PENSTOCK_LOG_FILE) cannot be written",
                             settings_.file));
    write(LogLevel::kWarning, Warning{WarningCode::kLogFile, error.message}.line());
  }
}

/// Where none can begin, lines are written by those who log them.
void LogWriter::begin_thread() {
  try {
    const std::size_t lines_max = settings_.level < LogLevel::kWarning ? kLinesMax : kWarningsMax;
    thread_ = std::make_shared<spdlog::details::thread_pool>(lines_max, 1, begin_on_thread);
    behind_ = std::make_shared<spdlog::async_logger>("penstock", output_, thread_,
                                                     spdlog::async_overflow_policy::overrun_oldest);
  } catch (const std::system_error&) {
    behind_ = at_once_;
    is_stopped_ = true;
  }
}

void LogWriter::write(LogLevel level, std::string line) {
  std::ranges::replace_if(
      line, [](char letter) { return static_cast<unsigned char>(letter) < ' ' || letter == 0x7f; },
      ' ');
  if (is_stopped_.load(std::memory_order_acquire)) {
    at_once_->log(spdlog_level(level), line);
    return;
  }
  ++given_;
  behind_->log(spdlog_level(level), line);
}

/// Of those that were given to the thread.
std::uint64_t LogWriter::dropped() const {
  return lost_->load() + thread_->overrun_counter();
}

void LogWriter::flush() {
  const std::lock_guard lock(ending_);
  if (thread_) {
    output_->await(given_.load(), [this] { return dropped(); });
  }
}

void LogWriter::stop() {
  const std::lock_guard lock(ending_);
  is_stopped_.store(true, std::memory_order_release);
  if (!thread_) {
    return;
  }
  const std::uint64_t dropped_lines = dropped();
  thread_.reset();  // joins it
  const auto [refused, error] = output_->refused();
  if (settings_.level > LogLevel::kWarning || dropped_lines + refused == 0) {
    return;
  }
  const std::string why =
      refused == 0
          ? "it could not be written as fast as they came"
          : system_error(error, fmt::format("{} (PENSTOCK_LOG_FILE)", settings_.file)).message;
  const std::string line =
      Warning{WarningCode::kLogLines,
              fmt::format("{} lines of the log are missing: {}", dropped_lines + refused, why)}
          .line();
  at_once_->warn(line);
  if (refused > 0 && !settings_.file.empty()) {  // which may have refused this one, too
    spdlog::logger on_stderr("penstock", std::make_shared<Output>(STDERR_FILENO));
    on_stderr.set_formatter(std::make_unique<LineFormatter>(true));
    on_stderr.warn(line);
  }
}

}  // namespace penstock
