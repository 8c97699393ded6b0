#include "swap/update/run_threads.h"

#include <algorithm>

#include "swap/update/thread_team.h"

namespace penstock {
namespace {

// Some 30 us of work: the last part to end keeps the other threads waiting no longer.
constexpr std::size_t kRunsPerPart = 16;

}  // namespace

void for_stretches_of_runs(std::size_t runs, unsigned threads,
                           const std::function<void(std::size_t begin, std::size_t end)>& update) {
  const std::size_t parts = (runs + kRunsPerPart - 1) / kRunsPerPart;
  ThreadTeam::of_process().run(parts, threads, [&update, runs](std::size_t part) {
    update(part * kRunsPerPart, std::min((part + 1) * kRunsPerPart, runs));
  });
}

}  // namespace penstock
