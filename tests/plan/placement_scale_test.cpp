#include <gtest/gtest.h>

#include <chrono>

#include "tests/plan/plan_fixture.h"

namespace penstock {
namespace {

// Far above what it takes (under a second without a sanitizer), far below what a slip to quadratic
// time would take.
constexpr auto kPatience = std::chrono::seconds(60);

template <class Work>
void expect_within_patience(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST(PlacementScaleTest, AMillionTensors) {
  std::vector<PlanTensor> tensors(1'000'000);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = fmt::format("model.layers.{}.experts.{}.weight", i / 1000, i % 1000);
    // 997 sizes between 1 and 5 MiB.
    tensors[i].bytes = kMiB + (i * 7919 % 997) * kBlockBytes + i % 3;
  }
  Budgets budgets;
  budgets.max_pinned_bytes = 8 * kGiB;
  budgets.ram_bytes = 64 * kGiB;
  expect_within_patience([&] {
    const Placement placement = place_tensors(tensors, {}, budgets).value();
    EXPECT_GT(placement.ram_bytes, 63 * kGiB);
    EXPECT_LE(placement.pinned_bytes, budgets.max_pinned_bytes);
    EXPECT_LE(static_cast<double>(placement.pinned_bytes),
              1.02 * static_cast<double>(placement.peak_live_bytes));
  });
}

TEST(PlacementScaleTest, AMillionTensorsOfAsManySizes) {
  std::vector<PlanTensor> tensors(1'000'000);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].name = fmt::format("t{}", i);
    tensors[i].bytes = kMiB + (i * 7919 % tensors.size()) * 512;
  }
  Budgets budgets;
  budgets.max_pinned_bytes = 64 * kMiB;
  expect_within_patience([&] {
    const Placement placement = place_tensors(tensors, {}, budgets).value();
    EXPECT_LE(placement.pinned_bytes, budgets.max_pinned_bytes);
  });
}

}  // namespace
}  // namespace penstock
