#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "bench/benchmark.h"
#include "bench/job/job_file.h"
#include "cli/document_text.h"
#include "cli/verb.h"

namespace penstock::cli {
namespace {

using bench::Job;
using bench::JobResult;
using nlohmann::ordered_json;

struct ReplayOptions {
  std::string trace;
  std::string config;
  std::string device;
  std::string path;
  std::string compute;
  bool verify = false;
  bool as_json = false;
};

struct RenamedKey {
  const char* key;     // of a job
  const char* option;  // ours
};
constexpr RenamedKey kRenamedKeys[] = {{"--ioengine", "--device"}, {"--directory", "--path"}};

/// The options as keys of a job: one reader for both. An error names the option.
Result<std::vector<Job>> replay_jobs(const ReplayOptions& options) {
  std::vector<std::string> keys = {"--name=replay", "--workload=replay",
                                   "--trace=" + options.trace};
  const auto add = [&keys](const char* key, const std::string& value) {
    if (!value.empty()) {
      keys.push_back(fmt::format("--{}={}", key, value));
    }
  };
  add("config", options.config);
  add("ioengine", options.device);
  add("directory", options.path);
  add("compute", options.compute);
  add("verify", options.verify ? "1" : "");
  Result<std::vector<Job>> jobs = bench::load_jobs({}, keys);
  if (jobs.has_value()) {
    return jobs;
  }
  Error error = jobs.error();
  for (const auto& [key, option] : kRenamedKeys) {
    if (error.message.starts_with(key)) {
      error.message.replace(0, std::string_view(key).size(), option);
    }
  }
  return error;
}

Result<JobResult> replay(const std::vector<Job>& jobs) {
  const Result<std::vector<JobResult>> results = bench::run_benchmark(jobs, {});
  PENSTOCK_TRY(results);
  const JobResult& result = results->front();
  if (result.error != 0) {
    return result.failure();
  }
  return result;
}

double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

std::string json_text(const ReplayOptions& options, const JobResult& result) {
  const bench::SwapResult& swap = *result.swap;
  const ordered_json document{{"schema", "penstock.replay/1"},
                              {"trace", options.trace},
                              {"device", options.device.empty() ? "machine" : options.device},
                              {"elapsed_ns", result.elapsed_ns},
                              {"stall_ns", swap.stall_ns},
                              {"fetched", result.read.total_ios},
                              {"written", result.write.total_ios},
                              {"read_bytes", swap.read_bytes},
                              {"write_bytes", swap.write_bytes},
                              {"overlap", swap.overlap()},
                              {"hits", swap.hits},
                              {"late", swap.late},
                              {"misses", swap.misses},
                              {"pinned_bytes", swap.pinned_bytes},
                              {"peak_live_bytes", swap.peak_live_bytes},
                              {"pool_waits", swap.pool_waits}};
  return document_text(document);
}

std::string plain_text(const JobResult& result) {
  const bench::SwapResult& swap = *result.swap;
  const double share = result.elapsed_ns == 0 ? 0.0
                                              : 100.0 * static_cast<double>(swap.stall_ns) /
                                                    static_cast<double>(result.elapsed_ns);
  return fmt::format(
      "time         {:.6f} s\n"
      "stalls       {:.6f} s ({:.1f} %)\n"
      "fetched      {}: {} were there, {} on their way, {} began their read\n"
      "read         {}\n"
      "written      {} in {}\n"
      "pinned       {}\n",
      seconds(result.elapsed_ns), seconds(swap.stall_ns), share,
      counted(result.read.total_ios, "tensor"), swap.hits, swap.late, swap.misses,
      format_bytes(swap.read_bytes), format_bytes(swap.write_bytes),
      counted(result.write.total_ios, "tensor"), format_bytes(swap.pinned_bytes));
}

int run_replay(const ReplayOptions& options) {
  const Result<std::vector<Job>> jobs = replay_jobs(options);
  if (jobs.has_error()) {
    return no_jobs(jobs.error());
  }
  const Result<JobResult> result = replay(*jobs);
  if (result.has_error()) {
    return failed(result.error());
  }
  fmt::print("{}", options.as_json ? json_text(options, *result) : plain_text(*result));
  return kDone;
}

}  // namespace

void add_replay(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "replay", "Run a recorded swap trace again, on files or a simulated drive");
  verb->footer(
      "PENSTOCK_TRACE=FILE saves a trace of any run, under DeepSpeed too.\n"
      "Example:\n"
      "  penstock replay trace.jsonl --device sim:read=3.5g,write=3g,latency=80us");
  const auto options = std::make_shared<ReplayOptions>();
  verb->add_option("TRACE", options->trace, "What PENSTOCK_TRACE saved")->required();
  verb->add_option("--config", options->config, "A DeepSpeed JSON: budgets, engine, paths");
  verb->add_option("--device", options->device,
                   "sim:read=3.5g,write=3g,latency=80us (virtual time), or an I/O engine");
  verb->add_option("--path", options->path, "Where the stores go, for real files");
  verb->add_option("--compute", options->compute,
                   "In place of the recorded gaps: 5ms a tensor, 20ms/GB");
  verb->add_flag("--verify", options->verify, "Compare every byte that comes back");
  verb->add_flag("--json", options->as_json, "One JSON document (penstock.replay/1)");
  verb->callback([options, &exit_code] { exit_code = run_replay(*options); });
}

}  // namespace penstock::cli
