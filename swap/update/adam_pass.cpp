#include "swap/update/adam_pass.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "swap/transfer/dtype_conversion.h"

namespace penstock {
namespace {

// Of a widened gradient, 16 KiB: in the first cache beside the states that it meets.
constexpr std::size_t kBlockElements = 4096;
static_assert(kBlockElements % kAdamCutElements == 0);
// Some 60 us of work: several times what it takes to begin a thread.
constexpr std::size_t kElementsPerThread = 32 * kBlockElements;

/// Elements [begin, end); begin is at a multiple of kBlockElements.
void update_range(const AdamStep& step, const AdamStretch& stretch, std::size_t begin,
                  std::size_t end) {
  const std::size_t element_bytes = dtype_bytes(stretch.gradient_dtype);
  std::array<float, kBlockElements> wide;
  for (std::size_t at = begin; at < end; at += kBlockElements) {
    const std::size_t count = std::min(kBlockElements, end - at);
    const std::span gradient = std::span(wide).first(count);
    convert(stretch.gradient_dtype,
            stretch.gradient.subspan(at * element_bytes, count * element_bytes), DType::kF32,
            std::as_writable_bytes(gradient));
    for (float& value : gradient) {
      value *= stretch.gradient_factor;
    }
    step.update({stretch.master.subspan(at, count), stretch.exp_avg.subspan(at, count),
                 stretch.exp_avg_sq.subspan(at, count), gradient});
  }
}

}  // namespace

void update_stretch(const AdamStep& step, const AdamStretch& stretch, unsigned threads) {
  const std::size_t count = stretch.master.size();
  PENSTOCK_CHECK(stretch.gradient.size() == count * dtype_bytes(stretch.gradient_dtype),
                 "{} bytes of a gradient for {} elements", stretch.gradient.size(), count);
  const std::size_t parts =
      std::clamp<std::size_t>(count / kElementsPerThread, 1, std::max(threads, 1U));
  const std::size_t part = align_up(count / parts + 1, kBlockElements);
  std::vector<std::jthread> helpers;
  helpers.reserve(parts);
  for (std::size_t begin = part; begin < count; begin += part) {
    const std::size_t end = std::min(begin + part, count);
    try {
      helpers.emplace_back(
          [&step, &stretch, begin, end] { update_range(step, stretch, begin, end); });
    } catch (const std::system_error&) {  // no more threads in this process: it goes without
      update_range(step, stretch, begin, end);
    }
  }
  update_range(step, stretch, 0, std::min(part, count));
}

}  // namespace penstock
