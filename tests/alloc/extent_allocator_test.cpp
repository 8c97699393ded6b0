#include "alloc/extent_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace penstock {
namespace {

constexpr std::uint64_t kGranule = 16;

TEST(ExtentAllocator, RoundsToTheGranule) {
  ExtentAllocator allocator(100, kGranule);
  EXPECT_EQ(allocator.capacity_bytes(), 96U);
  EXPECT_EQ(allocator.allocate(1), (Extent{0, 16}));
  EXPECT_EQ(allocator.allocate(17), (Extent{16, 32}));
  EXPECT_EQ(allocator.allocate(0), (Extent{48, 16}));
  EXPECT_EQ(allocator.used_bytes(), 64U);
  EXPECT_EQ(allocator.free_tail_bytes(), 32U);
  EXPECT_EQ(allocator.allocate(33), std::nullopt);
  EXPECT_EQ(allocator.allocate(~std::uint64_t{0}), std::nullopt);
}

TEST(ExtentAllocator, TakesTheSmallestHoleAndOfEqualsTheFirst) {
  ExtentAllocator allocator(16 * kGranule, kGranule);
  std::vector<Extent> units;
  for (int unit = 0; unit < 16; ++unit) {
    units.push_back(*allocator.allocate(kGranule));
  }
  // Holes of 3, 1, 2 and 1 granules, in this order.
  for (const std::size_t unit : {0U, 1U, 2U, 4U, 6U, 7U, 9U}) {
    allocator.release(units[unit]);
  }
  EXPECT_EQ(allocator.largest_free_bytes(), 3 * kGranule);
  EXPECT_EQ(allocator.allocate(kGranule)->offset, 4 * kGranule);
  EXPECT_EQ(allocator.allocate(kGranule)->offset, 9 * kGranule);
  EXPECT_EQ(allocator.allocate(2 * kGranule)->offset, 6 * kGranule);
  EXPECT_EQ(allocator.allocate(kGranule)->offset, 0U);
  EXPECT_EQ(allocator.largest_free_bytes(), 2 * kGranule);
  EXPECT_EQ(allocator.free_tail_bytes(), 0U);
}

TEST(ExtentAllocator, MergesWhateverTheOrderOfRelease) {
  std::vector<std::size_t> order = {0, 1, 2};
  do {
    ExtentAllocator allocator(3 * kGranule, kGranule);
    std::vector<Extent> units;
    for (int unit = 0; unit < 3; ++unit) {
      units.push_back(*allocator.allocate(kGranule));
    }
    for (const std::size_t unit : order) {
      allocator.release(units[unit]);
    }
    EXPECT_EQ(allocator.largest_free_bytes(), 3 * kGranule);
  } while (std::ranges::next_permutation(order).found);
}

TEST(ExtentAllocator, ExtendsAFreeTailAndAUsedOne) {
  ExtentAllocator allocator(0, kGranule);
  EXPECT_EQ(allocator.allocate(1), std::nullopt);
  EXPECT_EQ(allocator.largest_free_bytes(), 0U);
  allocator.extend(2 * kGranule);
  EXPECT_EQ(allocator.free_tail_bytes(), 2 * kGranule);
  allocator.extend(kGranule);
  EXPECT_EQ(allocator.free_tail_bytes(), 3 * kGranule);
  EXPECT_EQ(allocator.allocate(3 * kGranule), (Extent{0, 3 * kGranule}));
  allocator.extend(kGranule);
  EXPECT_EQ(allocator.allocate(kGranule), (Extent{3 * kGranule, kGranule}));
  allocator.extend(0);
  EXPECT_EQ(allocator.capacity_bytes(), 4 * kGranule);
}

TEST(ExtentAllocatorDeathTest, ReleasingTwiceOrInPartIsOurFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ExtentAllocator allocator(4 * kGranule, kGranule);
  const Extent extent = *allocator.allocate(2 * kGranule);
  EXPECT_DEATH(allocator.release({extent.offset, kGranule}), "not allocated");
  allocator.release(extent);
  EXPECT_DEATH(allocator.release(extent), "not allocated");
}

/// The same by brute force: one flag per granule.
class NaiveAllocator {
 public:
  explicit NaiveAllocator(std::size_t granules) : used_(granules, false) {}

  std::optional<std::size_t> allocate(std::size_t granules) {
    std::optional<std::size_t> best;
    std::size_t best_length = used_.size() + 1;
    for (const auto& [start, length] : holes()) {
      if (length >= granules && length < best_length) {
        best = start;
        best_length = length;
      }
    }
    if (best) {
      mark(*best, granules, true);
    }
    return best;
  }
  void mark(std::size_t start, std::size_t granules, bool used) {
    std::fill_n(used_.begin() + static_cast<std::ptrdiff_t>(start), granules, used);
  }
  void extend(std::size_t granules) { used_.resize(used_.size() + granules, false); }

  std::vector<std::pair<std::size_t, std::size_t>> holes() const {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t at = 0; at < used_.size(); ++at) {
      if (used_[at]) {
        continue;
      }
      if (found.empty() || found.back().first + found.back().second != at) {
        found.emplace_back(at, 0);
      }
      ++found.back().second;
    }
    return found;
  }
  std::size_t used() const { return static_cast<std::size_t>(std::ranges::count(used_, true)); }

 private:
  std::vector<bool> used_;
};

class ExtentAllocatorModel : public testing::TestWithParam<unsigned> {};

TEST_P(ExtentAllocatorModel, AgreesOverRandomOperations) {
  std::mt19937 random(GetParam());
  const auto upto = [&](std::size_t most) { return std::size_t{random()} % most + 1; };
  ExtentAllocator allocator(64 * kGranule, kGranule);
  NaiveAllocator model(64);
  std::vector<Extent> held;
  for (int step = 0; step < 3000; ++step) {
    const auto dice = upto(100);
    if (dice <= 55) {
      const std::size_t granules = upto(upto(12));
      const std::optional<Extent> extent = allocator.allocate(granules * kGranule - random() % 16);
      const std::optional<std::size_t> expected = model.allocate(granules);
      ASSERT_EQ(extent.has_value(), expected.has_value()) << "step " << step;
      if (extent) {
        ASSERT_EQ(*extent, (Extent{*expected * kGranule, granules * kGranule})) << "step " << step;
        held.push_back(*extent);
      }
    } else if (dice <= 99 && !held.empty()) {
      std::swap(held[upto(held.size()) - 1], held.back());
      model.mark(held.back().offset / kGranule, held.back().bytes / kGranule, false);
      allocator.release(held.back());
      held.pop_back();
    } else if (allocator.capacity_bytes() < 512 * kGranule) {
      const std::size_t granules = upto(8);
      allocator.extend(granules * kGranule);
      model.extend(granules);
    }
    const auto holes = model.holes();
    std::size_t largest = 0;
    for (const auto& [start, length] : holes) {
      largest = std::max(largest, length);
    }
    ASSERT_EQ(allocator.largest_free_bytes(), largest * kGranule) << "step " << step;
    ASSERT_EQ(allocator.used_bytes(), model.used() * kGranule) << "step " << step;
    const bool tail_free =
        !holes.empty() &&
        (holes.back().first + holes.back().second) * kGranule == allocator.capacity_bytes();
    ASSERT_EQ(allocator.free_tail_bytes(), tail_free ? holes.back().second * kGranule : 0);
  }
  for (const Extent& extent : held) {
    allocator.release(extent);
  }
  EXPECT_EQ(allocator.used_bytes(), 0U);
  EXPECT_EQ(allocator.largest_free_bytes(), allocator.capacity_bytes());
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExtentAllocatorModel, testing::Range(1U, 9U));

}  // namespace
}  // namespace penstock
