#include "swap/update/plain_pass.h"

#include <algorithm>
#include <array>

#include "alloc/check.h"
#include "swap/update/run_threads.h"
#include "swap/update/stretch.h"

namespace penstock {

void update_plain(const PlainStep& step, std::span<float> master, std::span<float> state,
                  const AccumulatedGradient& gradient, unsigned threads) {
  PENSTOCK_CHECK(state.size() == master.size() && gradient.has_elements(master.size()),
                 "a state of {} elements, a gradient of {} bytes for {} elements", state.size(),
                 gradient.bytes.size(), master.size());
  const std::size_t runs = (master.size() + kRunElements - 1) / kRunElements;
  for_stretches_of_runs(runs, threads, [&](std::size_t begin, std::size_t end) {
    std::array<float, kRunElements> memory;
    for (std::size_t run = begin; run < end; ++run) {
      const std::size_t first = run * kRunElements;
      const std::size_t count = std::min(kRunElements, master.size() - first);
      step(master.subspan(first, count), state.subspan(first, count),
           gradient.widened(first, std::span(memory).first(count)));
    }
  });
}

}  // namespace penstock
