#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "alloc/excerpt.h"
#include "alloc/lower_case.h"
#include "swap/plan/inventory.h"
#include "swap/plan/nearest_name.h"

namespace penstock {
namespace {

struct DTypeEntry {
  DType dtype;
  std::uint32_t bits;
  std::string_view name;                     // ours: safetensors' in lower case
  std::array<std::string_view, 4> synonyms;  // torch's and others', lower case; empty ones unused
};

constexpr std::array<DTypeEntry, 22> kDTypes{{
    {DType::kBool, 8, "bool", {}},
    {DType::kU8, 8, "u8", {"uint8", "byte"}},
    {DType::kI8, 8, "i8", {"int8", "char"}},
    {DType::kF8E4M3, 8, "f8_e4m3", {"float8_e4m3fn", "float8_e4m3", "f8e4m3", "fp8"}},
    {DType::kF8E5M2, 8, "f8_e5m2", {"float8_e5m2", "f8e5m2"}},
    {DType::kF8E8M0, 8, "f8_e8m0", {"float8_e8m0fnu", "float8_e8m0", "f8e8m0"}},
    {DType::kF8E4M3FNUZ, 8, "f8_e4m3fnuz", {"float8_e4m3fnuz"}},
    {DType::kF8E5M2FNUZ, 8, "f8_e5m2fnuz", {"float8_e5m2fnuz"}},
    {DType::kF6E2M3, 6, "f6_e2m3", {}},
    {DType::kF6E3M2, 6, "f6_e3m2", {}},
    {DType::kF4, 4, "f4", {}},
    {DType::kI16, 16, "i16", {"int16", "short"}},
    {DType::kU16, 16, "u16", {"uint16"}},
    {DType::kF16, 16, "f16", {"float16", "fp16", "half"}},
    {DType::kBF16, 16, "bf16", {"bfloat16"}},
    {DType::kI32, 32, "i32", {"int32", "int"}},
    {DType::kU32, 32, "u32", {"uint32"}},
    {DType::kF32, 32, "f32", {"float32", "fp32", "float"}},
    {DType::kF64, 64, "f64", {"float64", "fp64", "double"}},
    {DType::kI64, 64, "i64", {"int64", "long"}},
    {DType::kU64, 64, "u64", {"uint64"}},
    {DType::kC64, 64, "c64", {"complex64", "cfloat"}},
}};

const DTypeEntry& entry_of(DType dtype) noexcept {
  return kDTypes[static_cast<std::size_t>(dtype)];
}

constexpr std::array<std::string_view, 5> kRoleNames{"param", "master", "moment", "gradient",
                                                     "buffer"};

}  // namespace

std::uint32_t dtype_bits(DType dtype) noexcept {
  return entry_of(dtype).bits;
}

std::uint32_t dtype_bytes(DType dtype) noexcept {
  return (dtype_bits(dtype) + 7) / 8;
}

std::uint64_t packed_bytes(DType dtype, std::uint64_t elements) noexcept {
  const std::uint64_t bits = dtype_bits(dtype);
  return elements / 8 * bits + (elements % 8 * bits + 7) / 8;  // a sum of bits could wrap
}

std::string_view dtype_name(DType dtype) noexcept {
  return entry_of(dtype).name;
}

Result<DType> parse_dtype(std::string_view text) {
  const std::string lower = lower_case(std::string(text));
  std::string_view wanted = lower;
  if (wanted.starts_with("torch.")) {
    wanted.remove_prefix(6);
  }
  for (const DTypeEntry& entry : kDTypes) {
    const bool is_synonym =
        std::find(entry.synonyms.begin(), entry.synonyms.end(), wanted) != entry.synonyms.end();
    if (!wanted.empty() && (entry.name == wanted || is_synonym)) {
      return entry.dtype;
    }
  }
  std::vector<std::string_view> names;
  names.reserve(kDTypes.size());
  for (const DTypeEntry& entry : kDTypes) {
    names.push_back(entry.name);
  }
  return fault(Fault::kInvalidArgument,
               fmt::format("\"{}\" is not a known element type{}; known are {}", excerpt(text),
                           did_you_mean(wanted, names), fmt::join(names, ", ")));
}

std::string_view role_name(Role role) noexcept {
  return kRoleNames[static_cast<std::size_t>(role)];
}

Result<Role> parse_role(std::string_view text) {
  const auto found = std::find(kRoleNames.begin(), kRoleNames.end(), text);
  if (found != kRoleNames.end()) {
    return static_cast<Role>(found - kRoleNames.begin());
  }
  return fault(Fault::kInvalidArgument,
               fmt::format("\"{}\" is not a role of a tensor{}; known are {}", excerpt(text),
                           did_you_mean(text, kRoleNames), fmt::join(kRoleNames, ", ")));
}

}  // namespace penstock
