#include "swap/update/run_threads.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace penstock {
namespace {

// Some 60 us of work: several times what it takes to begin a thread.
constexpr std::size_t kRunsPerThread = 32;

}  // namespace

void for_stretches_of_runs(std::size_t runs, unsigned threads,
                           const std::function<void(std::size_t begin, std::size_t end)>& update) {
  const std::size_t parts =
      std::clamp<std::size_t>(runs / kRunsPerThread, 1, std::max(threads, 1U));
  const std::size_t part = runs / parts + 1;
  std::vector<std::jthread> helpers;
  helpers.reserve(parts);
  for (std::size_t begin = part; begin < runs; begin += part) {
    const std::size_t end = std::min(begin + part, runs);
    try {
      helpers.emplace_back([&update, begin, end] { update(begin, end); });
    } catch (const std::system_error&) {  // no more threads in this process: it goes without
      update(begin, end);
    }
  }
  update(0, std::min(part, runs));
}

}  // namespace penstock
