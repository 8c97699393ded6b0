#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace penstock {

/// fp32 to bf16, up or down at random, in proportion to how near the two are: on average nothing is
/// lost. To nearest, a second moment of Adam would lose every decrease: with a beta of 0.999 a step
/// takes a thousandth of it at most, and half the distance to the next bf16 is two to four.
///
/// What is bf16 already stays, as do infinities and NaN. The choice is a hash of the value and of
/// `step`, so that it depends neither on threads nor on how a tensor is cut, and a run that resumes
/// makes the same one. `bf16` has values.size() elements. Pure.
void round_randomly(std::span<const float> values, std::uint64_t step, std::span<std::byte> bf16);

}  // namespace penstock
