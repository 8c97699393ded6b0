#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"

namespace penstock {

/// Element types by their safetensors name in lower case: bf16, f32, i64…
enum class DType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kF6E2M3,
  kF6E3M2,
  kF4,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
  kC64
};

/// Of one element. Elements of 4 and 6 bits lie side by side, without padding.
std::uint32_t dtype_bits(DType dtype) noexcept;
/// The same in bytes, rounded up.
std::uint32_t dtype_bytes(DType dtype) noexcept;
/// Of so many elements side by side, rounded up.
std::uint64_t packed_bytes(DType dtype, std::uint64_t elements) noexcept;
std::string_view dtype_name(DType dtype) noexcept;  ///< `bf16`, `f32`
/// Takes `bf16`, `BF16`, `bfloat16`, `torch.bfloat16`, `float32`, `fp32`, `f32`… and so on.
Result<DType> parse_dtype(std::string_view text);

/// What a tensor is for. Parameters are fetched in forward and backward, optimizer states once a
/// step.
enum class Role : std::uint8_t { kParam, kMaster, kMoment, kGradient, kBuffer };
std::string_view role_name(Role role) noexcept;
Result<Role> parse_role(std::string_view text);

/// Axes of a shape; more than any library makes.
inline constexpr std::size_t kTensorAxesMax = 64;

/// Errors: Fault::kInvalidArgument: a tensor with so many.
Result<void> check_axes(std::string_view tensor, std::size_t axes);

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::uint64_t> shape;  ///< empty for a scalar
  Role role = Role::kParam;
  /// Of a parameter: false for a frozen one (no gradient, no states). Of a state: false for one
  /// that its optimizer keeps and never uses.
  bool is_trained = true;

  std::uint64_t elements() const noexcept;
  std::uint64_t bytes() const noexcept;
  /// Whether the last element ends with a byte, as it must.
  bool is_whole_bytes() const noexcept { return elements() % 8 * dtype_bits(dtype) % 8 == 0; }
  /// Whether bytes() is below 2^63 and has not wrapped around, so that sums of a few can be formed
  /// without looking.
  bool fits_63_bits() const noexcept;
};

/// Another name of a tensor, in a module that uses it as well: a head that is tied to the
/// embedding.
struct TiedName {
  std::string name;
  std::string tensor;  ///< the name that the inventory lists it under
};

/// Everything that there is to be swapped, in order of first use as far as it is known.
struct Inventory {
  std::vector<TensorInfo> tensors;
  std::optional<std::vector<TiedName>> ties = {};  ///< where they are known

  std::uint64_t bytes() const noexcept;
  std::uint64_t elements() const noexcept;
};

}  // namespace penstock
