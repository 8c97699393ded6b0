#include "bench/report/bandwidth_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <vector>

namespace penstock::bench {
namespace {

struct Line {
  std::uint64_t ms;
  double kib_per_second;
  int direction;
  std::uint64_t block_bytes;
};

void append_lines(std::vector<Line>& lines, const DirectionResult& result, int direction,
                  const std::vector<BlockShare>& blocks) {
  const std::uint64_t block_bytes = blocks.empty() ? 0 : blocks.front().bytes;
  std::uint64_t begin_ns = 0;
  for (const BandwidthSample& sample : result.bandwidth) {
    const auto ns = static_cast<double>(std::max<std::uint64_t>(sample.at_ns - begin_ns, 1));
    lines.push_back({sample.at_ns / 1'000'000, static_cast<double>(sample.bytes) * 1e9 / ns / 1024,
                     direction, block_bytes});
    begin_ns = sample.at_ns;
  }
}

}  // namespace

std::string bandwidth_log(const JobResult& result, const Job& job) {
  std::vector<Line> lines;
  append_lines(lines, result.read, 0, job.read_blocks);
  append_lines(lines, result.write, 1, job.write_blocks);
  std::ranges::stable_sort(lines, {}, &Line::ms);
  std::string text;
  for (const Line& line : lines) {
    text += fmt::format("{}, {:.0f}, {}, {}, 0\n", line.ms, line.kib_per_second, line.direction,
                        line.block_bytes);
  }
  return text;
}

Result<void> write_bandwidth_logs(const Report& report) {
  std::size_t number = 0;
  for (const JobResult& result : report.results) {
    ++number;
    const Job& job = report.jobs[result.job];
    if (job.write_bw_log.empty()) {
      continue;
    }
    const std::string path = fmt::format("{}_bw.{}.log", job.write_bw_log, number);
    errno = 0;
    std::ofstream file(path, std::ios::trunc);
    file << bandwidth_log(result, job);
    file.close();
    if (!file) {
      return system_error(errno != 0 ? errno : EIO, fmt::format("cannot write {}", path), path);
    }
  }
  return {};
}

}  // namespace penstock::bench
