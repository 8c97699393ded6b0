#pragma once

#include <cstddef>
#include <span>

#include "swap/plan/inventory.h"

namespace penstock {

/// Doubles in a vector of the instructions that a sum may be ordered for.
enum class VectorLanes : unsigned { k2 = 2, k4 = 4, k8 = 8 };

/// The sum of squares in double precision, in the order of vectors: whole vectors are added lane by
/// lane, then the lanes in order, then the elements that fill no vector. With 4 lanes that is the
/// order of torch's norm of doubles on x86-64 (aten/src/ATen/native/cpu/ReduceOpsKernel.cpp, torch
/// 2.13); here elements are widened in the caches. Squares of these types are exact in double
/// precision, so contraction changes nothing. dtype: f32, bf16 or f16, else the sum is NaN;
/// `elements` aligned for it. Pure.
double squared_sum(std::span<const std::byte> elements, DType dtype, VectorLanes lanes);

}  // namespace penstock
