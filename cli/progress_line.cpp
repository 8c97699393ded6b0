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

ProgressLine::ProgressLine(std::string done_word)
    : done_word_(std::move(done_word)), on_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (shown_) {
    print_error("{}", kEraseLine);
  }
}

bool ProgressLine::is_due() {
  const Clock::time_point now = Clock::now();
  if (!on_terminal_ || now - shown_at_ < kInterval) {
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
  print_error("{}{} of {} {}, {}/s, {:.0f} s left", kEraseLine, format_bytes(done_bytes),
              format_bytes(total_bytes), done_word_,
              format_bytes(static_cast<std::uint64_t>(done / seconds)), std::ceil(left));
  std::fflush(stderr);
}

void ProgressLine::show(const std::string& text) {
  if (is_due()) {
    print_error("{}{}", kEraseLine, text);
    std::fflush(stderr);
  }
}

}  // namespace penstock::cli
