#include "bindings/deepspeed/optimizer_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "alloc/lower_case.h"
#include "swap/plan/nearest_name.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 4> kNames{"none", "adamw", "adamw8bit", "adamw4bit"};

}  // namespace

std::span<const std::string_view> optimizer_names() noexcept {
  return kNames;
}

std::string_view optimizer_name(OptimizerKind kind) noexcept {
  return kNames[static_cast<std::size_t>(kind)];
}

Result<OptimizerKind> parse_optimizer(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("\"{}\" is no optimizer that is known{}; allowed: {}", text,
                             did_you_mean(text, kNames), fmt::join(kNames, ", ")));
  }
  return static_cast<OptimizerKind>(found - kNames.begin());
}

OptimizerKind optimizer_of_type(std::string_view type) {
  const std::string lower = lower_case(std::string(type));
  const bool is_8bit = lower.find("8bit") != std::string::npos;
  const bool is_4bit = lower.find("4bit") != std::string::npos;
  return is_8bit   ? OptimizerKind::kAdamW8Bit
         : is_4bit ? OptimizerKind::kAdamW4Bit
                   : OptimizerKind::kAdamW;
}

std::uint64_t moment_bytes(OptimizerKind kind, std::uint64_t elements) noexcept {
  switch (kind) {
    case OptimizerKind::kNone:
      return 0;
    case OptimizerKind::kAdamW:
      return elements * 8;  // two of fp32
    case OptimizerKind::kAdamW8Bit:
      return elements * 2;
    case OptimizerKind::kAdamW4Bit:
      return (elements + 1) / 2 * 2;  // two nibbles to a byte, each moment in bytes of its own
  }
  return 0;
}

}  // namespace penstock
