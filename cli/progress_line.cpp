#include "cli/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "alloc/bytes.h"
#include "cli/erase_line.h"
#include "cli/error_output.h"

namespace penstock::cli {
namespace {

constexpr std::chrono::milliseconds kInterval{200};

}  // namespace

ProgressLine::ProgressLine(std::string done_word, const std::string& when,
                           std::optional<std::chrono::nanoseconds> interval)
    : done_word_(std::move(done_word)),
      on_terminal_(::isatty(STDERR_FILENO) == 1 && !interval),
      interval_(interval.value_or(kInterval)),
      enabled_(interval || when == "always" || (when == "auto" && on_terminal_)) {}

ProgressLine::~ProgressLine() {
  if (shown_ && on_terminal_) {
    print_error("{}", kEraseLine);
  }
}

bool ProgressLine::is_due() {
  const Clock::time_point now = Clock::now();
  if (!enabled_ || now - shown_at_ < interval_) {
    return false;
  }
  shown_at_ = now;
  shown_ = true;
  return true;
}

void ProgressLine::update(std::uint64_t done_bytes, std::uint64_t total_bytes) {
  if (done_bytes == 0 || !is_due()) {
    return;
  }
  const double seconds = std::chrono::duration<double>(shown_at_ - begun_).count();
  const double done = static_cast<double>(done_bytes);
  const double left = static_cast<double>(total_bytes - done_bytes) * seconds / done;
  show(fmt::format("{} of {} {}, {}/s, {:.0f} s left", format_bytes(done_bytes),
                   format_bytes(total_bytes), done_word_,
                   format_bytes(static_cast<std::uint64_t>(done / seconds)), std::ceil(left)));
}

void ProgressLine::show(const std::string& text) {
  print_error("{}{}{}", on_terminal_ ? kEraseLine : "", text, on_terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace penstock::cli
