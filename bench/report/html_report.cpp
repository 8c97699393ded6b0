#include "bench/report/html_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "alloc/bytes.h"
#include "bench/report/bandwidth_chart.h"

namespace penstock::bench {
namespace {

constexpr const char* kStyle =
    "body{font:15px/1.5 sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;"
    "text-align:right}td:first-child,th:first-child{text-align:left}"
    "pre{background:#f4f4f4;padding:.8em;white-space:pre-wrap}.error{color:#a00}"
    "svg{max-width:100%;height:auto}";

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

std::string row(const JobResult& result, const char* name, const DirectionResult& moved) {
  if (moved.total_ios == 0) {
    return {};
  }
  const auto us = [&](double percent) {
    return fmt::format("{:.1f}", static_cast<double>(moved.clat.percentile(percent)) / 1000);
  };
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.0f}</td><td>{}</td><td>{:.3f}</td>"
      "<td>{}</td><td>{}</td><td>{:.2f}</td></tr>\n",
      escaped(result.name), name, moved.bytes_per_second() * 1e-6, moved.ios_per_second(),
      format_bytes(moved.io_bytes), static_cast<double>(moved.runtime_ns) * 1e-9, us(50), us(99),
      cpu_ms_per_gb(result));
}

std::string results_table(const Report& report) {
  std::string rows;
  for (const JobResult& result : report.results) {
    rows += row(result, "read", result.read) + row(result, "write", result.write);
    if (!result.error_message.empty()) {
      rows += fmt::format("<tr class='error'><td>{}</td><td colspan='8'>error {}: {}</td></tr>\n",
                          escaped(result.name), result.error, escaped(result.error_message));
    }
    if (result.interrupted) {
      rows += fmt::format("<tr class='error'><td>{}</td><td colspan='8'>interrupted</td></tr>\n",
                          escaped(result.name));
    }
  }
  return "<table>\n<tr><th>job</th><th></th><th>MB/s</th><th>requests/s</th><th>moved</th>"
         "<th>seconds</th><th>50 %, µs</th><th>99 %, µs</th><th>CPU, ms a GB</th></tr>\n" +
         rows + "</table>\n";
}

std::string jobs_list(const Report& report) {
  std::string list;
  for (const std::vector<std::string>& options : report.job_options) {
    list += "<pre>";
    for (const std::string& option : options) {
      list += escaped(option) + "\n";
    }
    list += "</pre>\n";
  }
  return list;
}

}  // namespace

std::string html_report(const Report& report) {
  const std::string time = fmt::format(
      "{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(report.time)));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
      "<title>penstock bench</title><style>{}</style></head><body>\n<h1>penstock bench</h1>\n"
      "<p>penstock {}, {}<br>{}</p>\n<pre id='command'>{}</pre>\n<h2>Results</h2>\n{}"
      "<h2>Bandwidth</h2>\n{}<h2>Jobs</h2>\n{}</body></html>\n",
      kStyle, escaped(report.version), time, escaped(machine()), escaped(report.command),
      results_table(report), bandwidth_chart(report), jobs_list(report));
}

}  // namespace penstock::bench
