#include "bench/pair/fio_peer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bindings/inventory/json_document.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

constexpr double kTickSeconds = 0.001;

// A colon would separate names.
std::string fio_name(const std::string& name) {
  std::string text;
  for (const char letter : name) {
    text += letter == ':' ? "\\:" : std::string(1, letter);
  }
  return text;
}

// Of reads and writes. Where one number holds for both, fio moves as much of both, whatever the
// mix; ours keeps the mix, and its larger part the rate.
std::string fio_rate(const Job& job, bool mixes) {
  if (!mixes) {
    return std::to_string(job.rate);
  }
  const std::uint32_t reads = job.rwmixread;
  const std::uint32_t writes = 100 - reads;
  const auto part = [&](std::uint32_t share) {
    return std::ceil(static_cast<double>(job.rate) * share / std::max(reads, writes));
  };
  return fmt::format("{:.0f},{:.0f}", part(reads), part(writes));
}

// Adds what one of fio's jobs did. Throws json::exception where the report lacks it.
void add_job(const json& job, MeasuredRun& run) {
  const json& read = job.at("read");
  const json& write = job.at("write");
  run.read_bytes += read.at("io_bytes").get<std::uint64_t>();
  run.write_bytes += write.at("io_bytes").get<std::uint64_t>();
  const double ms = std::max(read.at("runtime").get<double>(), write.at("runtime").get<double>());
  run.seconds = std::max(run.seconds, ms * kTickSeconds);
  const double cpu_percent = job.at("usr_cpu").get<double>() + job.at("sys_cpu").get<double>();
  run.cpu_seconds += cpu_percent / 100 * job.at("job_runtime").get<double>() / 1000;
}

}  // namespace

std::string FioSettings::describe() const {
  const std::string before = fmt::format("{}", fmt::join(environment, " "));
  return fmt::format("{}{}fio {}", before, before.empty() ? "" : " ", fmt::join(arguments, " "));
}

std::vector<FioSettings> fio_candidates(std::uint32_t depth) {
  const auto keys = [depth](const char* engine) {
    return std::vector{fmt::format("--ioengine={}", engine), fmt::format("--iodepth={}", depth)};
  };
  const std::vector<std::string> huge_pages{"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"};
  std::vector<std::string> fixed = keys("io_uring");
  fixed.insert(fixed.end(), {"--fixedbufs=1", "--registerfiles=1"});
  return {
      {fixed, huge_pages}, {fixed}, {keys("io_uring"), huge_pages}, {keys("libaio"), huge_pages}};
}

Command fio_command(const Job& job, const FioSettings& settings) {
  Command command;
  command.package = "fio";
  command.ends_at_once = true;
  command.environment = settings.environment;
  std::vector<std::string>& arguments = command.arguments;
  arguments = {"fio",
               "--output-format=json",
               "--eta=never",
               "--thread=1",
               "--allow_file_create=0",
               "--overwrite=1",
               "--fallocate=none",
               "--gtod_reduce=1",
               "--scramble_buffers=0"};
  const auto add = [&](bool is_given, const char* key, const auto& value) {
    if (is_given) {
      arguments.push_back(fmt::format("--{}={}", key, value));
    }
  };
  const bool mixes = job.direction.reads && job.direction.writes;
  add(true, "name", job.name);
  add(true, "rw", mixes ? "rw" : job.direction.writes ? "write" : "read");
  add(mixes, "rwmixread", job.rwmixread);
  add(true, "bs", job.raw_block_bytes());
  add(!job.directory.empty(), "directory", fio_name(job.directory));
  add(!job.filename.empty(), "filename", fio_name(job.filename));
  add(job.size > 0, "size", job.size);
  add(job.io_size.has_value(), "io_size", job.io_size.value_or(0));
  add(true, "loops", job.loops);
  add(job.runtime_ns.has_value(), "runtime",
      fmt::format("{}us", job.runtime_ns.value_or(0) / 1000));
  add(job.time_based, "time_based", 1);
  add(job.ramp_time_ns > 0, "ramp_time", fmt::format("{}us", job.ramp_time_ns / 1000));
  add(job.rate > 0, "rate", fio_rate(job, mixes));
  const auto cpus = job.given.find("cpus_allowed");
  add(cpus != job.given.end(), "cpus_allowed", cpus != job.given.end() ? cpus->second : "");
  add(true, "direct", job.direct.value_or(false) ? 1 : 0);
  add(true, "numjobs", job.numjobs);
  std::ranges::copy(settings.arguments, std::back_inserter(arguments));
  return command;
}

Result<MeasuredRun> parse_fio_report(std::string_view text) {
  MeasuredRun run{.tick_seconds = kTickSeconds};
  try {
    const std::size_t begin = std::min(text.find('{'), text.size());  // behind warnings
    const json report = json::parse(text.substr(begin));
    for (const json& job : report.at("jobs")) {
      if (const int error = job.at("error"); error != 0) {
        return system_error(error, "fio failed");
      }
      add_job(job, run);
    }
  } catch (const json::exception& error) {
    return fault(Fault::kUnsupported,
                 fmt::format("fio's report lacks what is compared ({}), it begins with \"{}\"",
                             json_reason(error.what()), excerpt(text)));
  }
  if (run.bytes() == 0 || run.seconds <= 0) {
    return fault(Fault::kUnsupported,
                 "fio moved nothing, or in less than the millisecond that it counts in: give the "
                 "job more to do");
  }
  return run;
}

Result<MeasuredRun> run_fio(const Job& job, const FioSettings& settings) {
  Result<ChildProcess> fio = ChildProcess::start(fio_command(job, settings));
  PENSTOCK_TRY(fio);
  const Result<std::string> report = fio->finish();
  PENSTOCK_TRY(report);
  return parse_fio_report(*report);
}

PeerProgram make_fio_peer(const Job& job) {
  const std::vector<FioSettings> all = fio_candidates(job.raw_depth());
  PeerProgram peer{"fio", {}, [job, all](std::size_t settings, std::uint64_t io_size) {
                     Job work = job;
                     if (io_size != 0) {
                       work.io_size = io_size;
                     }
                     return run_fio(work, all[settings]);
                   }};
  std::ranges::transform(all, std::back_inserter(peer.settings), &FioSettings::describe);
  return peer;
}

}  // namespace penstock::bench
