#include "bench/report/plot_program.h"

#include <fmt/format.h>

#include "bench/process/child_process.h"
#include "plot_script.h"

namespace penstock::bench {
namespace {

Result<std::string> answer(const std::vector<std::string>& arguments, const std::string& question) {
  Result<ChildProcess> process = ChildProcess::start({arguments, {kNoLocalModules}});
  PENSTOCK_TRY(process);
  if (const Result<void> written = process->write(question); written.has_error()) {
    const Result<std::string> why = process->finish();
    return why.has_error() ? why.error() : written.error();
  }
  return process->finish();
}

}  // namespace

Result<std::string> find_plot_python(const std::vector<std::string>& candidates) {
  std::string refusals;
  for (const std::string& python : candidates) {
    const Result<std::string> version = answer({python, "-c", kPlotScript, "--check"}, "");
    if (version.has_value()) {
      return python;
    }
    refusals += fmt::format("{}{}", refusals.empty() ? "" : "; ", version.error().message);
  }
  return fault(
      Fault::kUnsupported,
      fmt::format("--plot needs Python with matplotlib, which is not here: install it "
                  "(apt-get install python3-matplotlib, or pip install matplotlib) or leave "
                  "it out ({})",
                  refusals));
}

Result<std::string> draw_plot(const std::string& python, const std::string& report) {
  return answer({python, "-c", kPlotScript}, report);
}

}  // namespace penstock::bench
