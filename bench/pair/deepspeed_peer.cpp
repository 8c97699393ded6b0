#include "bench/pair/deepspeed_peer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bench/pair/swapper_work.h"
#include "bench/process/child_process.h"
#include "bench/workload/raw_file.h"
#include "bench/workload/swap/swap_session.h"
#include "deepspeed_scripts.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

constexpr std::uint32_t kSwapDepth = 16;

// Keeps to the CPUs in its first argument, if any; makes modules of the names and texts in the
// others, and runs the last one.
constexpr const char* kLoader = R"(
import os, sys, types
if sys.argv[1]:
    os.sched_setaffinity(0, map(int, sys.argv[1].split(",")))
for name, text in zip(sys.argv[2::2], sys.argv[3::2]):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name + ".py", "exec"), module.__dict__)
module.main()
)";

Error no_answer(std::string_view line) {
  return fault(Fault::kUnsupported, fmt::format("DeepSpeed's run answered \"{}\"", excerpt(line)));
}

// What the script answers, if it is no error.
Result<json> read_answer(std::string_view line) {
  json answer = json::parse(line, nullptr, false);
  if (!answer.is_object()) {
    return no_answer(line);
  }
  if (const auto error = answer.find("error"); error != answer.end()) {
    return fault(Fault::kUnsupported,
                 "DeepSpeed's run failed: " +
                     excerpt(error->is_string() ? error->get<std::string>() : error->dump()));
  }
  return answer;
}

/// One JSON object a candidate: what DeepSpeed's block `aio` says, and whether it pipelines.
std::vector<std::string> settings_for(std::uint64_t block_bytes, std::uint32_t depth,
                                      bool pipelines) {
  std::vector<std::string> all;
  for (const bool pipeline : {false, true}) {
    for (const auto& [threads, single] : {std::pair{1, false}, {2, false}, {4, false}, {1, true}}) {
      if (pipelines || !pipeline) {
        all.push_back(fmt::format(
            R"({{"block_size":{},"queue_depth":{},"single_submit":{},"overlap_events":true,)"
            R"("intra_op_parallelism":{},"pipeline":{}}})",
            block_bytes, depth, single, threads, pipeline));
      }
    }
  }
  return all;
}

std::string cpu_list(const std::optional<cpu_set_t>& cpus) {
  std::vector<std::size_t> all;
  for (std::size_t cpu = 0; cpus && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &*cpus)) {
      all.push_back(cpu);
    }
  }
  return fmt::format("{}", fmt::join(all, ","));
}

/// What the process is started with.
struct Parts {
  const char* what;  ///< of DeepSpeed is measured, for people
  const char* script;
  std::string work;
  std::vector<std::string> settings;
  std::optional<cpu_set_t> cpus;
  std::uint64_t io_size = 0;  ///< of a run, where its caller says none; 0: all there is
};

/// The process that does one run after another.
class Runner {
 public:
  explicit Runner(ChildProcess process) : process_(std::move(process)) {}
  /// The script removes what it has made once nothing more is said to it.
  ~Runner() { (void)process_.finish(); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  Result<std::string> ask(const std::string& what) {
    PENSTOCK_TRY(process_.write(what + "\n"));
    return process_.read_line();
  }

 private:
  ChildProcess process_;
};

Result<PeerProgram> start(const Parts& parts) {
  Result<ChildProcess> process =
      ChildProcess::start({{pythons().front(), "-c", kLoader, cpu_list(parts.cpus), "conversation",
                            kConversationScript, "script", parts.script},
                           {kNoLocalModules},
                           "python3"});
  PENSTOCK_TRY(process);
  const auto runner = std::make_shared<Runner>(std::move(*process));
  const Result<std::string> answer = runner->ask(parts.work);
  PENSTOCK_TRY(answer);
  PENSTOCK_TRY(read_answer(*answer));
  PeerProgram peer{
      "deepspeed", {}, [runner, parts](std::size_t at, std::uint64_t io_size) {
        const Result<std::string> said =
            runner->ask(fmt::format(R"({{"settings": {}, "io_size": {}}})", parts.settings[at],
                                    io_size != 0 ? io_size : parts.io_size));
        return said.has_error() ? Result<MeasuredRun>(said.error()) : parse_deepspeed_answer(*said);
      }};
  for (const std::string& settings : parts.settings) {
    peer.settings.push_back(fmt::format("{} {}", parts.what, settings));
  }
  return peer;
}

Result<void> check_handle_can(const Job& job) {
  const char* const what =
      job.direction.reads == job.direction.writes ? "mix directions: rw=read or rw=write"
      : job.numjobs > 1                           ? "be shared by several jobs: numjobs=1"
      : job.runtime_ns || job.rate  ? "stop by time or keep to a rate: leave out runtime and rate"
      : !job.direct.value_or(false) ? "go through the page cache: direct=1"
                                    : nullptr;
  return what == nullptr
             ? Result<void>()
             : fault(Fault::kInvalidArgument,
                     fmt::format("job {}: DeepSpeed's aio handle cannot {}", job.name, what));
}

Result<Parts> handle_parts(const Job& job) {
  PENSTOCK_TRY(check_handle_can(job));
  const Result<std::uint64_t> bytes = file_bytes(job, 0);
  PENSTOCK_TRY(bytes);
  const std::uint64_t region = align_down(*bytes, kBlockBytes);
  const json work{{"file", file_path(job, 0)},
                  {"bytes", region},
                  {"direction", job.direction.writes ? "write" : "read"}};
  return Parts{"aio",
               kAioHandleScript,
               work.dump(),
               settings_for(job.raw_block_bytes(), job.raw_depth(), false),
               job.cpus_allowed,
               job.io_size.value_or(region)};
}

Result<Parts> swapper_parts(const Job& job) {
  const Result<SwapInventory> inventory = job_inventory(job);
  PENSTOCK_TRY(inventory);
  Result<std::string> work = swapper_work(job, *inventory);
  PENSTOCK_TRY(work);
  // With several groups the optimizer's swapper may also read and write beside the step.
  return Parts{"swappers, aio", kSwappersScript, std::move(*work),
               settings_for(job.block_bytes.value_or(kMiB), job.iodepth.value_or(kSwapDepth),
                            inventory->sub_groups.size() > 1),
               job.cpus_allowed};
}

}  // namespace

Result<PeerProgram> make_deepspeed_peer(const Job& job) {
  const Result<Parts> parts =
      job.workload == Workload::kSwap ? swapper_parts(job) : handle_parts(job);
  PENSTOCK_TRY(parts);
  return start(*parts);
}

Result<MeasuredRun> parse_deepspeed_answer(std::string_view line) {
  const Result<json> answer = read_answer(line);
  PENSTOCK_TRY(answer);
  for (const char* const key : {"read_bytes", "write_bytes", "seconds", "cpu_seconds"}) {
    const auto value = answer->find(key);
    if (value == answer->end() || !value->is_number() || value->get<double>() < 0) {
      return no_answer(line);
    }
  }
  const MeasuredRun run{.read_bytes = answer->at("read_bytes"),
                        .write_bytes = answer->at("write_bytes"),
                        .seconds = answer->at("seconds"),
                        .cpu_seconds = answer->at("cpu_seconds")};
  if (run.bytes() == 0 || run.seconds <= 0) {
    return fault(Fault::kUnsupported, "DeepSpeed's run moved nothing");
  }
  return run;
}

}  // namespace penstock::bench
