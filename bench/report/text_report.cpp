#include <fmt/format.h>

#include <array>
#include <cmath>

#include "alloc/bytes.h"
#include "bench/job/job_key.h"
#include "bench/report/report.h"

namespace penstock::bench {
namespace {

std::string duration(double ns) {
  constexpr std::array kUnits = {"ns", "µs", "ms", "s"};
  std::size_t unit = 0;
  while (ns >= 10'000 && unit + 1 < kUnits.size()) {
    ns /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", ns, ns < 100 ? 1 : 0, kUnits[unit]);
}

std::string rate(double bytes_per_second) {
  return fmt::format("{}/s ({:.1f} MB/s)",
                     format_bytes(static_cast<std::uint64_t>(bytes_per_second)),
                     bytes_per_second * 1e-6);
}

// One line that says what the job was: `read and write (70 % reads), uring, depth 8, …`.
std::string what_it_was(const Job& job, const JobResult& result) {
  const Direction& direction = job.direction;
  std::string text = !direction.writes ? "read"
                     : direction.reads ? fmt::format("read and write ({} % reads)", job.rwmixread)
                                       : "write";
  text += fmt::format(", {}", format_bytes(job.raw_block_bytes()));
  text += job.is_psync()
              ? ", psync"
              : fmt::format(", {}, depth {}", engine_kind_name(*job.engine), job.raw_depth());
  text += job.direct.value_or(false) ? ", direct" : ", buffered";
  if (result.threads > 1) {
    text += fmt::format(", {} threads together", result.threads);
  }
  return text;
}

std::string direction_lines(const char* name, const DirectionResult& result) {
  if (result.total_ios == 0) {
    return {};
  }
  std::string text = fmt::format("  {:<8} {}, {:.0f} requests/s: {} in {:.3f} s, {} requests\n",
                                 name, rate(result.bytes_per_second()), result.ios_per_second(),
                                 format_bytes(result.io_bytes),
                                 static_cast<double>(result.runtime_ns) * 1e-9, result.total_ios);
  const LatencyHistogram& clat = result.clat;
  if (clat.count() == 0) {
    return text;
  }
  text += fmt::format("           latency  mean {}, deviation {}, from {} to {}\n",
                      duration(clat.mean()), duration(clat.standard_deviation()),
                      duration(static_cast<double>(clat.min())),
                      duration(static_cast<double>(clat.max())));
  text += "          ";
  for (const double percent : {50.0, 90.0, 99.0, 99.9}) {
    text += fmt::format("  {:g} % {}", percent,
                        duration(static_cast<double>(clat.percentile(percent))));
  }
  return text + "\n";
}

std::string swap_lines(const SwapResult& swap) {
  return fmt::format(
      "  swap     stalled {}, {:.1f} % of the drive's time without a waiting get\n"
      "           fetches: {} there in time, {} on their way, {} not begun; {} waits for memory\n"
      "           pinned {}, at most {} in use, {} of pageable memory beside; read {}, written {}, "
      "padding {}\n",
      duration(static_cast<double>(swap.stall_ns)), 100 * swap.overlap(), swap.hits, swap.late,
      swap.misses, swap.pool_waits, format_bytes(swap.pinned_bytes),
      format_bytes(swap.peak_live_bytes), format_bytes(swap.pageable_bytes),
      format_bytes(swap.read_bytes), format_bytes(swap.write_bytes),
      format_bytes(swap.padding_bytes));
}

// A peer that was done within a tick of its clock has no CPU time to compare with.
std::string cpu_ratio_text(const PairResult& pair) {
  return std::isfinite(pair.cpu.high)
             ? fmt::format("{:.3f} of {}'s ({:.3f} to {:.3f})", pair.cpu.median, pair.peer,
                           pair.cpu.low, pair.cpu.high)
             : fmt::format("not known: {} took too little to measure", pair.peer);
}

std::string pair_lines(const PairResult& pair) {
  const std::string warning = pair.warning();
  return fmt::format(
      "  pair     bandwidth {:.3f} of {}'s ({:.3f} to {:.3f} by 95 % of the median of {} pairs)\n"
      "           CPU a byte {}\n"
      "           {}: {}\n"
      "{}",
      pair.bandwidth.median, pair.peer, pair.bandwidth.low, pair.bandwidth.high,
      pair.bandwidth.all.size(), cpu_ratio_text(pair), pair.peer, pair.peer_settings,
      warning.empty() ? warning : fmt::format("           warning: {}\n", warning));
}

std::string job_text(const Job& job, const JobResult& result) {
  std::string text =
      fmt::format("{}: {}\n", result.name,
                  job.workload == Workload::kRaw ? what_it_was(job, result)
                                                 : std::string(workload_name(job.workload)));
  text += direction_lines("read", result.read);
  text += direction_lines("write", result.write);
  if (result.read.total_ios + result.write.total_ios != 0) {
    text += fmt::format("  cpu      user {:.2f} %, system {:.2f} %; {:.2f} ms a GB\n",
                        result.cpu_percent(result.cpu.user_seconds),
                        result.cpu_percent(result.cpu.system_seconds), result.cpu_ms_per_gb());
  }
  text += result.swap ? swap_lines(*result.swap) : "";
  text += result.pair ? pair_lines(*result.pair) : "";
  if (result.interrupted) {
    text += "  interrupted: this is what was done until then\n";
  }
  if (!result.error_message.empty()) {
    text += fmt::format("  error {}: {}\n", result.error, result.error_message);
  }
  return text;
}

}  // namespace

std::string text_report(const Report& report) {
  std::string text;
  for (const JobResult& result : report.results) {
    text += job_text(report.jobs[result.job], result);
  }
  return text;
}

}  // namespace penstock::bench
