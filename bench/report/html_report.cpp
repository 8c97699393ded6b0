#include "bench/report/html_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "bench/report/html_text.h"

namespace penstock::bench {
namespace {

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#222;--faint:#666;--line:#ddd;--card:#f5f5f5;--bad:#a00020}
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--faint:#999;--line:#444;--card:#222;--bad:#ff8080}}
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:var(--ink)}
h1{margin-bottom:0}h2{margin:2em 0 .5em;font-size:1.2em}.faint{color:var(--faint)}.bad{color:var(--bad)}
p,h3{overflow-wrap:anywhere}h3{font-size:1em;margin-bottom:.3em}
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.25em .9em .25em 0;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left;max-width:18em;overflow:hidden;text-overflow:ellipsis}
th{font-weight:600;vertical-align:bottom;white-space:normal}
pre{background:var(--card);padding:.8em;margin:.3em 0;border-radius:4px;overflow-x:auto;font-size:13px;line-height:1.4}
pre.fold{white-space:pre-wrap;overflow-wrap:anywhere}
.picture{background:#fff;padding:.8em;border-radius:4px}.picture svg{max-width:100%;height:auto;display:block}
)";

std::string machine() {
  utsname names{};
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  const auto pages = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 0L));
  const auto page_bytes = static_cast<std::uint64_t>(std::max(::sysconf(_SC_PAGESIZE), 0L));
  const bool known = ::uname(&names) == 0;
  return fmt::format("{} {} on {}, {} cores, {} of memory", known ? names.sysname : "?",
                     known ? names.release : "", known ? names.machine : "?", cores,
                     format_bytes(pages * page_bytes));
}

std::string seconds_text(std::uint64_t ns) {
  return fmt::format("{:.3f}", static_cast<double>(ns) * 1e-9);
}

std::string microseconds_text(double ns) {
  return fmt::format("{:.1f}", ns * 1e-3);
}

// Both directions of all results that moved anything.
template <class Visit>
void for_each_direction(const Report& report, Visit visit) {
  for (const JobResult& result : report.results) {
    for (const auto& [name, moved] :
         {std::pair{"read", &result.read}, std::pair{"write", &result.write}}) {
      if (moved->total_ios != 0) {
        visit(result, name, *moved);
      }
    }
  }
}

std::string results(const Report& report) {
  HtmlTable table({"job", "", "MB/s", "requests/s", "moved", "seconds", "CPU, ms a GB"});
  for_each_direction(
      report, [&table](const JobResult& result, const char* name, const DirectionResult& moved) {
        table.add({result.name, name, fmt::format("{:.1f}", moved.bytes_per_second() * 1e-6),
                   fmt::format("{:.0f}", moved.ios_per_second()), format_bytes(moved.io_bytes),
                   seconds_text(moved.runtime_ns), fmt::format("{:.2f}", cpu_ms_per_gb(result))});
      });
  std::string html = table.empty() ? "<p>Nothing moved.</p>\n" : table.html();
  for (const JobResult& result : report.results) {
    if (!result.error_message.empty()) {
      html += fmt::format("<p class='bad'>{}: error {}: {}</p>\n", escaped(result.name),
                          result.error, escaped(result.error_message));
    }
    if (result.interrupted) {
      html += fmt::format("<p class='bad'>{}: interrupted; this is what was done until then</p>\n",
                          escaped(result.name));
    }
  }
  return html;
}

std::string latencies(const Report& report) {
  HtmlTable table({"job", "", "mean", "50 %", "90 %", "99 %", "99.9 %", "most", "deviation"});
  for_each_direction(
      report, [&table](const JobResult& result, const char* name, const DirectionResult& moved) {
        const LatencyHistogram& clat = moved.clat;
        if (clat.count() == 0) {
          return;
        }
        std::vector<std::string> cells{result.name, name, microseconds_text(clat.mean())};
        for (const double percent : {50.0, 90.0, 99.0, 99.9}) {
          cells.push_back(microseconds_text(static_cast<double>(clat.percentile(percent))));
        }
        cells.push_back(microseconds_text(static_cast<double>(clat.max())));
        cells.push_back(microseconds_text(clat.standard_deviation()));
        table.add(std::move(cells));
      });
  return table.empty() ? std::string() : table.html();
}

std::string swaps(const Report& report) {
  HtmlTable table({"job", "stalled, s", "drive hidden", "in time", "on the way", "not begun",
                   "waits for memory", "pinned", "in use at most", "pageable beside", "read",
                   "written", "padding"});
  for (const JobResult& result : report.results) {
    if (result.swap) {
      const SwapResult& swap = *result.swap;
      table.add({result.name, seconds_text(swap.stall_ns),
                 fmt::format("{:.1f} %", 100 * swap.overlap), fmt::to_string(swap.hits),
                 fmt::to_string(swap.late), fmt::to_string(swap.misses),
                 fmt::to_string(swap.pool_waits), format_bytes(swap.pinned_bytes),
                 format_bytes(swap.peak_live_bytes), format_bytes(swap.pageable_bytes),
                 format_bytes(swap.read_bytes), format_bytes(swap.write_bytes),
                 format_bytes(swap.padding_bytes)});
    }
  }
  return table.empty() ? std::string() : table.html();
}

std::string pairs(const Report& report) {
  HtmlTable table({"job", "peer", "pairs", "bandwidth, ours over its", "IQR", "95 %",
                   "CPU a byte, ours over its", "IQR", "the peer's best settings"});
  for (const JobResult& result : report.results) {
    if (result.pair) {
      const PairResult& pair = *result.pair;
      table.add({result.name, pair.peer, fmt::to_string(pair.pairs),
                 fmt::format("{:.3f}", pair.ratio_median), fmt::format("{:.3f}", pair.ratio_iqr),
                 fmt::format("{:.3f} to {:.3f}", pair.ratio_low, pair.ratio_high),
                 fmt::format("{:.3f}", pair.cpu_ratio_median),
                 fmt::format("{:.3f}", pair.cpu_ratio_iqr), pair.peer_settings});
    }
  }
  return table.empty() ? std::string() : table.html();
}

std::string over_time(const Result<std::string>& picture) {
  if (picture.has_error()) {
    return fmt::format("<p class='bad'>There is no picture: {}</p>\n",
                       escaped(picture.error().message));
  }
  // An SVG within a page has no prologue.
  const std::size_t begin = std::min(picture->find("<svg"), picture->size());
  return fmt::format("<div class='picture'>{}</div>\n", picture->substr(begin));
}

std::string plans(const Report& report) {
  std::string html;
  for (const PlannedJobs& plan : report.plans) {
    html +=
        fmt::format("<h3>{}</h3>\n<pre>{}</pre>\n",
                    escaped(fmt::format("{}", fmt::join(plan.names, ", "))), escaped(plan.text));
  }
  return html;
}

std::string jobs(const Report& report) {
  std::string html;
  for (const std::vector<std::string>& options : report.job_options) {
    html += fmt::format("<pre class='fold'>{}</pre>\n",
                        escaped(fmt::format("{}", fmt::join(options, "\n"))));
  }
  return html;
}

}  // namespace

std::string html_report(const Report& report, const Result<std::string>& picture) {
  const std::string time = fmt::format(
      "{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(report.time)));
  const std::string where = report.directory.empty() ? ""
                                                     : fmt::format("<p class='faint'>in {}</p>\n",
                                                                   escaped(report.directory));
  return fmt::format(
             "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
             "<meta name='viewport' content='width=device-width'>"
             "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; "
             "style-src 'unsafe-inline'\"><title>penstock bench</title>"
             "<style>{}</style></head><body>\n<h1>penstock bench</h1>\n"
             "<p class='faint'>penstock {}, {}<br>{}</p>\n",
             kStyle, escaped(report.version), time, escaped(machine())) +
         html_section(
             "command", "The command that repeats it",
             fmt::format("<pre class='fold'>{}</pre>\n{}", escaped(report.command), where)) +
         html_section("results", "Results", results(report)) +
         html_section("latency", "Latency, µs", latencies(report)) +
         html_section("swap", "Swapping", swaps(report)) +
         html_section("pairs", "Beside others, in turns", pairs(report)) +
         html_section("time", "Over time", over_time(picture)) +
         html_section("plan", "The plan", plans(report)) +
         html_section("jobs", "The jobs", jobs(report)) + "</body></html>\n";
}

}  // namespace penstock::bench
