// simulate: many seeds of the simulation, and a table of what they met. See --help.

#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>

#include "tests/sim/swap_simulation.h"

namespace {

std::uint64_t running_seed = 0;

// A broken invariant stops the process: say where, so that it can be run again.
void tell_seed(int signal) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "\nseed %llu\n",
                                   static_cast<unsigned long long>(running_seed));
  if (::write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) {
    std::_Exit(3);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

using FaultCounts = std::array<std::uint64_t, penstock::kSimFaults>;

void add(FaultCounts& total, const FaultCounts& one) {
  std::ranges::transform(total, one, total.begin(), std::plus());
}

void add(penstock::SimulationReport& total, const penstock::SimulationReport& one) {
  total.operations += one.operations;
  total.contents_checked += one.contents_checked;
  total.bytes_checked += one.bytes_checked;
  total.errors_reported += one.errors_reported;
  add(total.faults, one.faults);
  for (const auto& [outcome, count] : one.outcomes) {
    total.outcomes[outcome] += count;
  }
}

/// `survived`: of runs in which no promise was broken.
void print(const penstock::SimulationReport& total, const FaultCounts& survived) {
  fmt::print("{} operations, {} contents checked ({:.1f} GB), {} errors reported\n",
             total.operations, total.contents_checked,
             static_cast<double>(total.bytes_checked) / 1e9, total.errors_reported);
  fmt::print("\n| fault | made | survived |\n| --- | --- | --- |\n");
  for (std::size_t i = 0; i < total.faults.size(); ++i) {
    fmt::print("| {} | {} | {} |\n", to_string(static_cast<penstock::SimFault>(i)), total.faults[i],
               survived[i]);
  }
  fmt::print("\n| operation: end | times |\n| --- | --- |\n");
  for (const auto& [outcome, count] : total.outcomes) {
    fmt::print("| {} | {} |\n", outcome, count);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs the production engine over a simulated drive with every fault, seed by seed.");
  app.footer(
      "Example: simulate --seeds 1000 --operations 100000\n         simulate --first 17 --seeds 1");
  std::uint64_t first = 1;
  std::uint64_t seeds = 20;
  penstock::SimulationOptions options;
  app.add_option("--first", first, "first seed")->capture_default_str();
  app.add_option("--seeds", seeds, "how many")->capture_default_str();
  app.add_option("--operations", options.operations, "operations a seed")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  std::signal(SIGABRT, tell_seed);
  std::signal(SIGSEGV, tell_seed);
  std::signal(SIGALRM, tell_seed);  // a hang
  penstock::SimulationReport total;
  FaultCounts survived{};
  int violations = 0;
  for (std::uint64_t i = 0; i < seeds; ++i) {
    running_seed = options.seed = first + i;
    ::alarm(600);
    const penstock::SimulationReport report = penstock::SwapSimulation(options).run();
    if (!report.violation.empty()) {
      ++violations;
      fmt::print("{}\n", report.violation);
    } else {
      add(survived, report.faults);
    }
    add(total, report);
  }
  print(total, survived);
  fmt::print("\n{} seeds, {} violations\n", seeds, violations);
  return violations == 0 ? 0 : 1;
}
