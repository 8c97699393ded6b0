#include "cli/status_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "alloc/bytes.h"
#include "cli/erase_line.h"
#include "cli/error_output.h"

namespace penstock::cli {
namespace {

std::string speed(const char* verb, std::uint64_t now, std::uint64_t before, double seconds) {
  if (now == 0 || now < before || seconds <= 0) {
    return {};
  }
  const auto a_second = static_cast<std::uint64_t>(static_cast<double>(now - before) / seconds);
  return fmt::format(", {} {}/s", verb, format_bytes(a_second));
}

// `2 jobs, 43 % done, reading 1.2 GiB/s, 3 s left`; speeds are those since `last`, which is
// forgotten where a new group of jobs has begun.
std::string describe_progress(const bench::BenchmarkProgress& now,
                              const bench::BenchmarkProgress& last) {
  const bool same_jobs = now.elapsed_ns > last.elapsed_ns;
  const bench::BenchmarkProgress before = same_jobs ? last : bench::BenchmarkProgress{};
  const double seconds = static_cast<double>(now.elapsed_ns - before.elapsed_ns) * 1e-9;
  std::string text =
      now.jobs_running == 0
          ? "laying out files"
          : fmt::format("{} job{}, {:.0f} % done", now.jobs_running,
                        now.jobs_running == 1 ? "" : "s", std::floor(100 * now.share_done));
  text += speed("reading", now.read_bytes, before.read_bytes, seconds);
  text += speed("writing", now.write_bytes, before.write_bytes, seconds);
  if (now.jobs_running != 0 && now.share_done > 0) {
    const double elapsed = static_cast<double>(now.elapsed_ns) * 1e-9;
    text +=
        fmt::format(", {:.0f} s left", std::ceil(elapsed * (1 - now.share_done) / now.share_done));
  }
  return text;
}

}  // namespace

StatusLine::StatusLine(const std::string& when, std::optional<std::chrono::nanoseconds> interval)
    : on_terminal_(::isatty(STDERR_FILENO) == 1 && !interval),
      interval_ns_(
          static_cast<std::uint64_t>(interval.value_or(std::chrono::nanoseconds(0)).count())),
      enabled_(interval || when == "always" || (when == "auto" && on_terminal_)) {}

StatusLine::~StatusLine() {
  if (shown_ && on_terminal_) {
    print_error("{}", kEraseLine);
  }
}

void StatusLine::show(const bench::BenchmarkProgress& progress) {
  const bool same_jobs = progress.elapsed_ns >= last_.elapsed_ns;
  if (!enabled_ || (same_jobs && progress.elapsed_ns < last_.elapsed_ns + interval_ns_)) {
    return;
  }
  shown_ = true;
  const std::string text = describe_progress(progress, last_);
  print_error("{}{}{}", on_terminal_ ? kEraseLine : "", text, on_terminal_ ? "" : "\n");
  std::fflush(stderr);
  last_ = progress;
}

}  // namespace penstock::cli
