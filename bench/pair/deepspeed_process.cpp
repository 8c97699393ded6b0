#include "bench/pair/deepspeed_process.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "alloc/excerpt.h"
#include "bench/process/python.h"
#include "deepspeed_scripts.h"

namespace penstock::bench {
namespace {

using nlohmann::json;

// Makes modules of the names and texts in its arguments, and runs the last one.
constexpr const char* kLoader = R"(
import sys, types
for name, text in zip(sys.argv[1::2], sys.argv[2::2]):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name + ".py", "exec"), module.__dict__)
module.main()
)";

Command command_for(DeepSpeedProcess::Script script) {
  const bool swaps = script == DeepSpeedProcess::Script::kSwappers;
  return {{pythons().front(), "-c", kLoader, "conversation", kConversationScript,
           swaps ? "swappers" : "aio_handle", swaps ? kSwappersScript : kAioHandleScript},
          {},
          "python3"};
}

// What the script tells, if it is an error.
Result<json> read_answer(std::string_view line) {
  json answer = json::parse(line, nullptr, false);
  if (!answer.is_object()) {
    return fault(Fault::kUnsupported,
                 fmt::format("DeepSpeed's run answered \"{}\"", excerpt(line)));
  }
  if (const auto error = answer.find("error"); error != answer.end()) {
    return fault(Fault::kUnsupported,
                 "DeepSpeed's run failed: " +
                     excerpt(error->is_string() ? error->get<std::string>() : error->dump()));
  }
  return answer;
}

}  // namespace

Result<DeepSpeedProcess> DeepSpeedProcess::start(Script script, const std::string& work) {
  Result<ChildProcess> child = ChildProcess::start(command_for(script));
  if (child.has_error()) {
    return std::move(child).error();
  }
  DeepSpeedProcess process(std::move(child).value());
  const Result<std::string> answer = process.ask(work);
  PENSTOCK_TRY(answer);
  PENSTOCK_TRY(read_answer(*answer));
  return process;
}

Result<MeasuredRun> DeepSpeedProcess::run_once(const std::string& order) {
  const Result<std::string> answer = ask(order);
  PENSTOCK_TRY(answer);
  return parse_deepspeed_answer(*answer);
}

Result<std::string> DeepSpeedProcess::ask(const std::string& what) {
  PENSTOCK_TRY(process_.say(what + "\n"));
  return process_.hear_line();
}

Result<MeasuredRun> parse_deepspeed_answer(std::string_view line) {
  const Result<json> answer = read_answer(line);
  PENSTOCK_TRY(answer);
  for (const char* const key : {"read_bytes", "write_bytes", "seconds", "cpu_seconds"}) {
    const auto value = answer->find(key);
    if (value == answer->end() || !value->is_number() || value->get<double>() < 0) {
      return fault(Fault::kUnsupported,
                   fmt::format("DeepSpeed's run answered \"{}\"", excerpt(line)));
    }
  }
  MeasuredRun run;
  run.read_bytes = answer->at("read_bytes").get<std::uint64_t>();
  run.write_bytes = answer->at("write_bytes").get<std::uint64_t>();
  run.seconds = answer->at("seconds").get<double>();
  run.cpu_seconds = answer->at("cpu_seconds").get<double>();
  if (run.bytes() == 0 || run.seconds <= 0) {
    return fault(Fault::kUnsupported, "DeepSpeed's run moved nothing");
  }
  return run;
}

}  // namespace penstock::bench
