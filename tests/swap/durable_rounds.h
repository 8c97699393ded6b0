#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "swap/swap_engine.h"
#include "tests/alloc/same_bytes.h"

namespace penstock {

/// Contents that say which tensor and which round they are: what a process that is killed puts, and
/// what is looked for afterwards.
inline constexpr std::uint32_t kRoundTensors = 5;

inline std::string round_tensor_name(std::uint32_t tensor) {
  return "t" + std::to_string(tensor);
}

inline TensorInfo round_tensor(std::uint32_t tensor) {
  return {round_tensor_name(tensor), DType::kU32, {1000 + 9000ULL * tensor}, Role::kParam};
}

inline std::vector<std::byte> round_content(std::uint32_t tensor, std::uint32_t round) {
  std::vector<std::uint32_t> numbers(round_tensor(tensor).elements());
  std::uint32_t state = round * 1000 + tensor;
  for (std::uint32_t& number : numbers) {
    number = state;
    state = state * 1664525U + 1013904223U;
  }
  numbers.front() = round;
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

inline std::unique_ptr<SwapEngine> open_durable_engine() {
  SwapEngineOptions options;
  options.config.mode = StoreMode::kDurable;
  options.config.integrity = IntegrityLevel::kFull;
  Budgets budgets;
  budgets.max_pinned_bytes = 8 * kMiB;
  budgets.max_pinned_given = true;
  budgets.ram_given = true;
  budgets.quarter_bytes = kGiB;
  options.budgets = budgets;
  options.io.depth = 8;
  return SwapEngine::open(std::move(options)).value();
}

/// The round of one tensor's content. Errors: why it cannot be read; that it is not whole.
inline Result<std::uint32_t> round_of(SwapEngine& engine, TensorId id, std::uint32_t tensor) {
  const Result<Lease> lease = engine.get(id).lease();
  if (lease.has_error()) {
    return lease.error();
  }
  std::uint32_t round = 0;
  std::memcpy(&round, lease->data(), sizeof(round));
  const std::vector<std::byte> expected = round_content(tensor, round);
  if (!same_bytes(expected, std::span(lease->data(), lease->bytes()))) {
    return fault(Fault::kCorrupt, "no whole content of round " + std::to_string(round));
  }
  return round;
}

/// 0 for a store without tensors.
inline std::uint32_t newest_round(SwapEngine& engine, NamespaceId space) {
  std::uint32_t newest = 0;
  for (std::uint32_t tensor = 0; tensor < kRoundTensors; ++tensor) {
    if (const auto id = engine.find(space, round_tensor_name(tensor))) {
      newest = std::max(newest, round_of(engine, *id, tensor).value());
    }
  }
  return newest;
}

}  // namespace penstock
