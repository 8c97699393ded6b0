#include "swap/update/adam_pass.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <thread>
#include <vector>

#include "alloc/check.h"
#include "swap/transfer/dtype_conversion.h"

namespace penstock {
namespace {

using Run = MomentLayout::Run;
using Block = std::array<float, MomentLayout::kRunElements>;  // 16 KiB: the first cache has three

static_assert(MomentLayout::kRunElements % kAdamCutElements == 0);
// Some 60 us of work: several times what it takes to begin a thread.
constexpr std::size_t kElementsPerThread = 32 * MomentLayout::kRunElements;

std::span<const float> widened(const AdamStretch& stretch, const Run& run, Block& memory) {
  const std::size_t element_bytes = dtype_bytes(stretch.gradient_dtype);
  const std::span gradient = std::span(memory).first(run.elements);
  convert(stretch.gradient_dtype,
          stretch.gradient.subspan(run.element * element_bytes, run.elements * element_bytes),
          DType::kF32, std::as_writable_bytes(gradient));
  for (float& value : gradient) {
    value *= stretch.gradient_factor;
  }
  return gradient;
}

/// A run of a moment as floats: in place where they are, else decoded.
std::span<float> opened(const MomentLayout& layout, const Run& run, std::span<std::byte> moment,
                        Block& memory) {
  if (run.format == StateFormat::kF32) {
    return {reinterpret_cast<float*>(moment.data() + run.byte), run.elements};
  }
  const std::span values = std::span(memory).first(run.elements);
  layout.decode(run, moment, values);
  return values;
}

void close(const MomentLayout& layout, const Run& run, std::span<const float> values,
           std::span<std::byte> moment) {
  if (run.format != StateFormat::kF32) {
    layout.encode(run, values, moment);
  }
}

void update_runs(const AdamStep& step, const AdamStretch& stretch, std::size_t begin,
                 std::size_t end) {
  Block gradient_memory;
  Block first_memory;
  Block second_memory;
  for (std::size_t i = begin; i < end; ++i) {
    const Run& first = stretch.exp_avg_layout.runs()[i];
    const Run& second = stretch.exp_avg_sq_layout.runs()[i];
    const std::span exp_avg = opened(stretch.exp_avg_layout, first, stretch.exp_avg, first_memory);
    const std::span exp_avg_sq =
        opened(stretch.exp_avg_sq_layout, second, stretch.exp_avg_sq, second_memory);
    step.update({stretch.master.subspan(first.element, first.elements), exp_avg, exp_avg_sq,
                 widened(stretch, first, gradient_memory)});
    close(stretch.exp_avg_layout, first, exp_avg, stretch.exp_avg);
    close(stretch.exp_avg_sq_layout, second, exp_avg_sq, stretch.exp_avg_sq);
  }
}

}  // namespace

bool is_whole(const AdamStretch& stretch) noexcept {
  const std::size_t count = stretch.master.size();
  return stretch.exp_avg_layout.elements() == count &&
         stretch.exp_avg_sq_layout.elements() == count &&
         stretch.exp_avg_layout.runs().size() == stretch.exp_avg_sq_layout.runs().size() &&
         stretch.exp_avg.size() == stretch.exp_avg_layout.bytes() &&
         stretch.exp_avg_sq.size() == stretch.exp_avg_sq_layout.bytes() &&
         stretch.gradient.size() == count * dtype_bytes(stretch.gradient_dtype);
}

void update_stretch(const AdamStep& step, const AdamStretch& stretch, unsigned threads) {
  PENSTOCK_CHECK(is_whole(stretch), "moments of {} and {} bytes, {} of a gradient for {} elements",
                 stretch.exp_avg.size(), stretch.exp_avg_sq.size(), stretch.gradient.size(),
                 stretch.master.size());
  const std::size_t runs = stretch.exp_avg_layout.runs().size();
  const std::size_t parts =
      std::clamp<std::size_t>(stretch.master.size() / kElementsPerThread, 1, std::max(threads, 1U));
  const std::size_t part = runs / parts + 1;
  std::vector<std::jthread> helpers;
  helpers.reserve(parts);
  for (std::size_t begin = part; begin < runs; begin += part) {
    const std::size_t end = std::min(begin + part, runs);
    try {
      helpers.emplace_back(
          [&step, &stretch, begin, end] { update_runs(step, stretch, begin, end); });
    } catch (const std::system_error&) {  // no more threads in this process: it goes without
      update_runs(step, stretch, begin, end);
    }
  }
  update_runs(step, stretch, 0, std::min(part, runs));
}

}  // namespace penstock
