#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/report/report.h"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

// fio's.
constexpr std::array kPercentiles = {1.0,  5.0,  10.0, 20.0, 30.0, 40.0, 50.0,  60.0, 70.0,
                                     80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99};

std::uint64_t whole(double value) {
  return static_cast<std::uint64_t>(std::llround(value));
}

std::uint64_t milliseconds(std::uint64_t ns) {
  return (ns + 500'000) / 1'000'000;
}

// What all jobs have in common goes to "global options", as it would stand in a [global] section.
ordered_json common_options(const std::vector<ordered_json>& jobs) {
  ordered_json common = ordered_json::object();
  if (jobs.size() < 2) {
    return common;
  }
  for (const auto& [key, value] : jobs.front().items()) {
    const bool everywhere = std::ranges::all_of(
        jobs, [&](const ordered_json& job) { return job.contains(key) && job[key] == value; });
    if (everywhere) {
      common[key] = value;
    }
  }
  return common;
}

ordered_json latency(const LatencyHistogram& clat) {
  ordered_json latency{{"min", clat.min()},
                       {"max", clat.max()},
                       {"mean", clat.mean()},
                       {"stddev", clat.standard_deviation()},
                       {"N", clat.count()}};
  if (clat.count() == 0) {
    return latency;
  }
  ordered_json percentiles = ordered_json::object();
  for (const double percent : kPercentiles) {
    percentiles[fmt::format("{:.6f}", percent)] = clat.percentile(percent);
  }
  latency["percentile"] = std::move(percentiles);
  return latency;
}

ordered_json direction(const DirectionResult& result) {
  return {{"io_bytes", result.io_bytes},
          {"io_kbytes", result.io_bytes / 1024},
          {"bw_bytes", whole(result.bytes_per_second())},
          {"bw", whole(result.bytes_per_second() / 1024)},
          {"iops", result.ios_per_second()},
          {"runtime", milliseconds(result.runtime_ns)},
          {"total_ios", result.total_ios},
          {"short_ios", result.short_ios},
          {"clat_ns", latency(result.clat)}};
}

ordered_json swap_numbers(const SwapResult& swap, const CpuTime& cpu) {
  return {{"stall_ns", swap.stall_ns},
          {"overlap", swap.overlap()},
          {"hits", swap.hits},
          {"late", swap.late},
          {"misses", swap.misses},
          {"pinned_bytes", swap.pinned_bytes},
          {"peak_live_bytes", swap.peak_live_bytes},
          {"pageable_bytes", swap.pageable_bytes},
          {"pool_waits", swap.pool_waits},
          {"padding_bytes", swap.padding_bytes},
          {"read_bytes", swap.read_bytes},
          {"write_bytes", swap.write_bytes},
          {"cpu_ms_per_gb", swap.cpu_ms_per_gb(cpu)}};
}

ordered_json pair_numbers(const PairResult& pair) {
  ordered_json numbers{{"peer", pair.peer},
                       {"peer_settings", pair.peer_settings},
                       {"pairs", pair.bandwidth.all.size()},
                       {"warning", pair.warning()}};
  for (const auto& [prefix, ratios] : {std::pair{"", &pair.bandwidth}, {"cpu_", &pair.cpu}}) {
    const std::string ratio = fmt::format("{}ratio", prefix);
    numbers[ratio + "_median"] = ratios->median;
    numbers[ratio + "_iqr"] = ratios->iqr;
    numbers[ratio + "_low"] = ratios->low;
    numbers[ratio + "_high"] = ratios->high;
    numbers[ratio + "s"] = ratios->all;
  }
  return numbers;
}

ordered_json course_numbers(const std::vector<std::vector<Sample>>& courses) {
  ordered_json all = ordered_json::array();
  for (const std::vector<Sample>& course : courses) {
    ordered_json& rows = all.emplace_back(ordered_json::array());
    for (const Sample& sample : course) {
      rows.push_back({sample.at_ns, sample.read_bytes, sample.write_bytes, sample.stall_ns,
                      sample.pinned_bytes, sample.live_bytes});
    }
  }
  return all;
}

ordered_json job_numbers(const JobResult& result, ordered_json options) {
  ordered_json numbers{{"jobname", result.name},
                       {"groupid", result.group},
                       {"error", result.error},
                       {"error_message", result.error_message},
                       {"interrupted", result.interrupted},
                       {"threads", result.threads},
                       {"elapsed", (result.elapsed_ns + 999'999'999) / 1'000'000'000},
                       {"job options", std::move(options)},
                       {"read", direction(result.read)},
                       {"write", direction(result.write)},
                       {"trim", direction({})},  // none; fio's scripts look for it
                       // of all threads, as fio's: percentages of CPU are of it
                       {"job_runtime", milliseconds(result.elapsed_ns * result.threads)},
                       {"usr_cpu", result.cpu_percent(result.cpu.user_seconds)},
                       {"sys_cpu", result.cpu_percent(result.cpu.system_seconds)},
                       {"cpu_ms_per_gb", result.cpu_ms_per_gb()}};
  if (result.swap) {
    numbers["swap"] = swap_numbers(*result.swap, result.cpu);
  }
  if (result.pair) {
    numbers["pair"] = pair_numbers(*result.pair);
  }
  return numbers;
}

}  // namespace

std::string json_report(const Report& report, bool course) {
  std::vector<ordered_json> options;
  for (const Job& job : report.jobs) {
    options.emplace_back(job.given);
  }
  const ordered_json common = common_options(options);
  ordered_json jobs = ordered_json::array();
  for (const JobResult& result : report.results) {
    ordered_json own = options[result.job];
    for (const auto& [key, value] : common.items()) {
      own.erase(key);
    }
    jobs.push_back(job_numbers(result, std::move(own)));
    if (course) {
      jobs.back()["courses"] = course_numbers(result.courses);
    }
  }
  const auto since_epoch = report.time.time_since_epoch();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count();
  const ordered_json document{
      {"schema", "penstock.bench/1"},
      {"penstock version", report.version},
      {"timestamp", ms / 1000},
      {"timestamp_ms", ms},
      {"time", fmt::format("{:%a %b %d %H:%M:%S %Y}",
                           fmt::gmtime(std::chrono::system_clock::to_time_t(report.time)))},
      {"command", report.command},
      {"global options", common},
      {"jobs", std::move(jobs)}};
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::bench
