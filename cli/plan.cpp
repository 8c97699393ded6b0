#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <string>
#include <utility>

#include "cli/configuration_listing.h"
#include "cli/emitted_config.h"
#include "cli/output_file.h"
#include "cli/plan_json.h"
#include "cli/plan_request.h"
#include "cli/plan_screen.h"
#include "cli/plan_text.h"
#include "cli/text_wrap.h"
#include "cli/verb.h"

namespace penstock::cli {
namespace {

struct PlanOptions {
  PlanRequest request;
  bool as_json = false;
  bool emit_config = false;
  bool show_config = false;
  bool verbose = false;
  std::string output;
};

// To standard output, or to a file, and then what has changed to standard output.
int print_emitted(const PlanOptions& options, const ConfigSource& source, const SwapPlan& plan) {
  const EmittedConfig emitted = emit_config(plan, source.json);
  if (options.output.empty()) {
    fmt::print("{}", emitted.json);
    return kDone;
  }
  if (const Result<void> written = write_output(options.output, emitted.json); !written) {
    return failed(written.error());
  }
  fmt::print("{}", comparison_text(emitted.rows));
  return kDone;
}

// A terminal shows the answers; who wants more asks for it, or reads a file.
void print_plan(const PlanOptions& options, const SwapPlan& plan) {
  if (options.as_json) {
    fmt::print("{}", plan_json(plan, options.verbose));
    return;
  }
  fmt::print("{}", plan_screen(plan, output_width()));
  if (options.verbose || ::isatty(STDOUT_FILENO) == 0) {
    fmt::print("\n{}", plan_text(plan));
  }
}

// Said again on standard error, for who reads only that, or only JSON.
int verdict(const SwapPlan& plan) {
  if (!plan.feasibility.feasible) {
    report_error("impossible: " + plan.feasibility.reason);
    return kFailed;
  }
  if (const PlanWarning* const misfit = plan.misfit()) {
    report_error("does not fit: " + misfit->text);
    return kDoesNotFit;
  }
  return kDone;
}

int run_plan(const PlanOptions& options) {
  const Result<ConfigSource> source = read_config_source(options.request.config_path());
  if (!source) {
    return failed(source.error());
  }
  Result<Config> config = options.request.read_config(*source);
  if (!config) {
    return failed(config.error());
  }
  if (options.show_config) {
    fmt::print("{}", options.as_json ? configuration_json(*config) : configuration_text(*config));
    return kDone;
  }
  const Result<SwapPlan> plan = options.request.make_plan(std::move(*config), *source);
  if (!plan) {
    return failed(plan.error());
  }
  if (options.emit_config) {
    if (const int exit_code = print_emitted(options, *source, *plan); exit_code != kDone) {
      return exit_code;
    }
  } else {
    print_plan(options, *plan);
  }
  return verdict(*plan);
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  CLI::App* verb = app.add_subcommand(
      "plan",
      "What becomes of every tensor of a model, and what memory that takes, before training");
  verb->footer(
      "Sizes are 4194304, 4k, 64MiB, 1g (units of 1024) or 64MB, 1GB (units of 1000).\n"
      "Exit status 3 if the run does not fit this machine, 1 if it is impossible within the "
      "budgets given.\n"
      "Examples:\n"
      "  penstock plan model.safetensors --config ds_config.json\n"
      "  penstock plan qwen3-30b-a3b.json --world-size 8 --stage 2 --activations 20GB\n"
      "  penstock plan model/ --config ds_config.json --emit-config > better.json\n"
      "`penstock tune` measures the drives as well before it writes one.");
  const auto options = std::make_shared<PlanOptions>();
  add_job_options(*verb, options->request);
  add_budget_options(*verb, options->request);
  add_drive_option(*verb, options->request);
  verb->add_flag("--json", options->as_json, "One JSON document (penstock.plan/1)");
  CLI::Option* emit = verb->add_flag(
      "--emit-config", options->emit_config,
      "Print the configuration with good buffer_count and buffer_size and the penstock block");
  verb->add_option("-o,--output", options->output,
                   "Write that configuration to this file, and print what has changed and why")
      ->type_name("OUT.json")
      ->needs(emit);
  verb->add_flag("--verbose", options->verbose,
                 "All of the plan: a terminal is shown its first screen otherwise; with --json the "
                 "optimizer's states and the memory of the process, too");
  verb->add_flag("--show-config", options->show_config, "Print every value read and its origin")
      ->excludes(emit);
  verb->callback([options, &exit_code] {
    if (options->request.inventories.empty() && options->request.trace.empty() &&
        !options->show_config) {
      throw CLI::RequiredError("INVENTORY");
    }
    exit_code = run_plan(*options);
  });
}

}  // namespace penstock::cli
