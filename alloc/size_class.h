#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// Whether memory of `has` bytes may serve a request for `bytes`: it is large enough, and at most
/// an eighth of it is wasted.
constexpr bool serves(std::uint64_t has, std::uint64_t bytes) noexcept {
  return has >= bytes && has - bytes <= has / 8;
}

/// How many tensors of one size there are.
struct SizeCount {
  std::uint64_t bytes = 0;
  std::uint32_t tensors = 0;
};

/// A group of sizes that share slots of one size.
struct SizeClass {
  std::uint64_t slot_bytes = 0;      ///< largest member, rounded up to 4 KiB
  std::uint64_t smallest_bytes = 0;  ///< smallest member
  std::uint32_t tensors = 0;
};

struct SizeClassOptions {
  /// Sizes are merged into one class while slot_bytes <= smallest member * (1 + max_waste). Sizes
  /// that need the same number of 4 KiB blocks always share one.
  double max_waste = 0.02;
  std::uint32_t classes_max = 64;
};

/// Near-exact classes from the sizes that are really there, ascending by slot_bytes. Pure.
/// Where more than `classes_max` would result, the waste bound is widened just enough.
/// Every size given fits exactly one class; sizes of 0 bytes are left out.
std::vector<SizeClass> make_size_classes(std::span<const SizeCount> sizes,
                                         const SizeClassOptions& options = {});

}  // namespace penstock
