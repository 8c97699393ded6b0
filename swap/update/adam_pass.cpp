#include "swap/update/adam_pass.h"

#include <algorithm>
#include <array>

#include "alloc/check.h"
#include "swap/update/run_threads.h"
#include "swap/update/stretch.h"

namespace penstock {
namespace {

using Run = MomentLayout::Run;
using Block = std::array<float, kRunElements>;

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
           std::uint64_t step, std::span<std::byte> moment) {
  if (run.format != StateFormat::kF32) {
    layout.encode_step(run, values, step, moment);
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
                 stretch.gradient.widened(first.element,
                                          std::span(gradient_memory).first(first.elements))});
    close(stretch.exp_avg_layout, first, exp_avg, step.number(), stretch.exp_avg);
    close(stretch.exp_avg_sq_layout, second, exp_avg_sq, step.number(), stretch.exp_avg_sq);
  }
}

}  // namespace

bool is_whole(const AdamStretch& stretch) noexcept {
  const std::size_t count = stretch.master.size();
  return stretch.exp_avg_layout.elements() == count &&
         stretch.exp_avg_sq_layout.elements() == count &&
         std::ranges::equal(stretch.exp_avg_layout.runs(), stretch.exp_avg_sq_layout.runs(), {},
                            &Run::elements, &Run::elements) &&
         stretch.exp_avg.size() == stretch.exp_avg_layout.bytes() &&
         stretch.exp_avg_sq.size() == stretch.exp_avg_sq_layout.bytes() &&
         stretch.gradient.has_elements(count);
}

void update_stretch(const AdamStep& step, const AdamStretch& stretch, unsigned threads) {
  PENSTOCK_CHECK(is_whole(stretch), "moments of {} and {} bytes, {} of a gradient for {} elements",
                 stretch.exp_avg.size(), stretch.exp_avg_sq.size(), stretch.gradient.bytes.size(),
                 stretch.master.size());
  for_stretches_of_runs(stretch.exp_avg_layout.runs().size(), threads,
                        [&step, &stretch](std::size_t begin, std::size_t end) {
                          update_runs(step, stretch, begin, end);
                        });
}

}  // namespace penstock
