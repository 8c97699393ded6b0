#pragma once

#include <string>
#include <string_view>

#include "alloc/result.h"
#include "bench/pair/measured_run.h"
#include "bench/process/child_process.h"

namespace penstock::bench {

/// Python with DeepSpeed that does one run after another: deepspeed/conversation.py says how it is
/// spoken to. It takes the python beside this program (in a virtual environment), else python3 of
/// PATH. Move-only, used by one thread; goes with this object.
class DeepSpeedProcess {
 public:
  /// The scripts travel inside the command: of deepspeed/aio_handle.py, deepspeed/swappers.py.
  enum class Script { kAioHandle, kSwappers };

  /// `work`: a JSON object. Blocks until DeepSpeed is loaded. Errors: no such Python, no DeepSpeed
  /// in it, or what the script tells.
  static Result<DeepSpeedProcess> start(Script script, const std::string& work);
  /// `order`: a JSON object. Blocks.
  Result<MeasuredRun> run_once(const std::string& order);

 private:
  explicit DeepSpeedProcess(ChildProcess process) : process_(std::move(process)) {}
  Result<std::string> ask(const std::string& what);

  ChildProcess process_;
};

/// What the script answers to a run. An error if it tells one, or no such answer.
Result<MeasuredRun> parse_deepspeed_answer(std::string_view line);

}  // namespace penstock::bench
