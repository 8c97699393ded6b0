#include "bench/report/terse_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock::bench {
namespace {

constexpr std::size_t kPercentileFields = 20;
constexpr int kDepthFields = 7;
// Microseconds; fio's classes of latencies, each below its number, and one beyond.
constexpr std::array<std::uint64_t, 10> kMicroseconds = {2,   4,   10,  20,  50,
                                                         100, 250, 500, 750, 1000};
constexpr std::array<std::uint64_t, 11> kMilliseconds = {2,   4,   10,  20,   50,  100,
                                                         250, 500, 750, 1000, 2000};

std::string latency_fields(std::uint64_t min, std::uint64_t max, double mean, double deviation) {
  return fmt::format(";{};{};{:.6f};{:.6f}", min, max, mean, deviation);
}

// KiB/s of the intervals: least, most, share of the group, mean, deviation.
std::string bandwidth_fields(const std::vector<BandwidthSample>& samples) {
  double least = 0;
  double most = 0;
  double sum = 0;
  double squares = 0;
  std::uint64_t begin_ns = 0;
  for (const BandwidthSample& sample : samples) {
    const auto ns = static_cast<double>(std::max<std::uint64_t>(sample.at_ns - begin_ns, 1));
    const double rate = static_cast<double>(sample.bytes) * 1e9 / ns / 1024;
    least = begin_ns == 0 ? rate : std::min(least, rate);
    most = std::max(most, rate);
    sum += rate;
    squares += rate * rate;
    begin_ns = sample.at_ns;
  }
  const auto count = static_cast<double>(std::max<std::size_t>(samples.size(), 1));
  const double mean = sum / count;
  const double deviation = std::sqrt(std::max(squares / count - mean * mean, 0.0));
  return fmt::format(";{:.0f};{:.0f};{:.6f}%;{:.6f};{:.6f}", least, most,
                     samples.empty() ? 0.0 : 100.0, mean, deviation);
}

std::string direction_fields(const DirectionResult& result, const Job& job) {
  std::string fields =
      fmt::format(";{};{:.0f};{:.0f};{}", result.io_bytes / 1024, result.bytes_per_second() / 1024,
                  result.ios_per_second(), (result.runtime_ns + 500'000) / 1'000'000);
  fields += latency_fields(0, 0, 0, 0);
  fields += latency_fields(result.clat.min() / 1000, result.clat.max() / 1000,
                           result.clat.mean() / 1000, result.clat.standard_deviation() / 1000);
  const std::vector<double> percentiles = percentiles_of(job);
  for (std::size_t index = 0; index < kPercentileFields; ++index) {
    fields += index < percentiles.size()
                  ? fmt::format(";{:.6f}%={}", percentiles[index],
                                result.clat.percentile(percentiles[index]) / 1000)
                  : ";0%=0";
  }
  fields += latency_fields(0, 0, 0, 0);
  return fields + bandwidth_fields(result.bandwidth);
}

// How many of all latencies are in each of fio's classes.
std::string latency_shares(const JobResult& result) {
  LatencyHistogram all = result.read.clat;
  all.merge(result.write.clat);
  std::array<std::uint64_t, kMicroseconds.size() + kMilliseconds.size() + 1> counts{};
  for (const LatencyHistogram::Bin& bin : all.bins()) {
    const std::uint64_t us = bin.ns / 1000;
    const auto place =
        us < kMicroseconds.back()
            ? std::ranges::upper_bound(kMicroseconds, us) - kMicroseconds.begin()
            : static_cast<std::ptrdiff_t>(kMicroseconds.size()) +
                  (std::ranges::upper_bound(kMilliseconds, us / 1000) - kMilliseconds.begin());
    counts[static_cast<std::size_t>(place)] += bin.count;
  }
  std::string fields;
  for (const std::uint64_t count : counts) {
    fields += fmt::format(";{:.2f}%", all.count() == 0 ? 0.0
                                                       : 100.0 * static_cast<double>(count) /
                                                             static_cast<double>(all.count()));
  }
  return fields;
}

}  // namespace

std::string terse_report(const Report& report) {
  std::string text;
  for (const JobResult& result : report.results) {
    const Job& job = report.jobs[result.job];
    text += fmt::format("3;penstock-{};{};{};{}", report.version, result.name, result.group,
                        result.error);
    text += direction_fields(result.read, job);
    text += direction_fields(result.write, job);
    text += fmt::format(";{:.6f}%;{:.6f}%;0;0;0", cpu_percent(result, result.user_seconds),
                        cpu_percent(result, result.system_seconds));
    for (int field = 0; field < kDepthFields; ++field) {
      text += ";0.0%";
    }
    text += latency_shares(result);
    text += result.error_message.empty() ? "\n" : fmt::format(";{}\n", result.error_message);
  }
  return text;
}

}  // namespace penstock::bench
