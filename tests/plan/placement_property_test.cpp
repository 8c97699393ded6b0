#include <gtest/gtest.h>

#include <random>

#include "tests/plan/plan_fixture.h"

// What must hold of every plan holds of thousands of random ones; the seed is printed on failure.
namespace penstock {
namespace {

struct Case {
  std::vector<PlanTensor> tensors;
  EngineConfig config;
  Budgets budgets;
};

std::uint64_t log_uniform(std::mt19937& random, double low, double high) {
  std::uniform_real_distribution<double> exponent(std::log2(low), std::log2(high));
  return static_cast<std::uint64_t>(std::exp2(exponent(random)));
}

std::vector<PlanTensor> random_tensors(std::mt19937& random) {
  // A few sizes that repeat, as models have them, and some that do not.
  std::vector<std::uint64_t> sizes(1 + random() % 8);
  for (std::uint64_t& bytes : sizes) {
    bytes = log_uniform(random, 1 << 20, 1 << 29);
  }
  std::vector<PlanTensor> tensors(random() % 200);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PlanTensor& tensor = tensors[i];
    tensor.name = fmt::format("t{}", i);
    tensor.bytes =
        random() % 10 == 0 ? log_uniform(random, 1 << 20, 1 << 30) : sizes[random() % sizes.size()];
    tensor.reads_per_step = static_cast<std::uint32_t>(random() % 3);
    tensor.writes_per_step = static_cast<std::uint32_t>(random() % 2);
    tensor.swappable = random() % 8 != 0;
  }
  return tensors;
}

EngineConfig random_rules(std::mt19937& random) {
  EngineConfig config;
  for (std::size_t k = random() % 3; k > 0; --k) {
    TensorRule rule;
    rule.match = fmt::format("t{}*", random() % 20);
    rule.place = static_cast<Place>(random() % 5);
    rule.text = "{}";
    config.tensors.push_back(rule);
  }
  return config;
}

Case random_case(std::mt19937& random) {
  Case made;
  made.tensors = random_tensors(random);
  made.config = random_rules(random);
  made.budgets.max_pinned_bytes = log_uniform(random, 1 << 20, 1LL << 32);
  made.budgets.ram_bytes = random() % 3 == 0 ? 0 : log_uniform(random, 1 << 20, 1LL << 34);
  made.budgets.max_pinned_given = random() % 2 == 0;
  made.budgets.ram_given = random() % 2 == 0;
  made.budgets.quarter_bytes = log_uniform(random, 1 << 30, 1LL << 34);
  made.config.outliers.above_bytes = random() % 2 == 0 ? 0 : log_uniform(random, 1 << 18, 1 << 30);
  return made;
}

TEST(PlacementPropertyTest, EveryPlanIsSoundAndEveryRefusalNamesAValueThatWorks) {
  int planned = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 4'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Case made = random_case(random);
    const Result<Placement> placement = place_tensors(made.tensors, made.config, made.budgets);
    if (placement.has_value()) {
      ++planned;
      test::expect_sound(made.tensors, *placement);
      continue;
    }
    ++refused;
    const std::string& reason = placement.error().message;
    const std::uint64_t smallest = test::smallest_value(reason);
    const bool is_ram = reason.find("ram_bytes") != std::string::npos;
    const auto try_with = [&](std::uint64_t value) {
      Budgets budgets = made.budgets;
      (is_ram ? budgets.ram_bytes : budgets.max_pinned_bytes) = value;
      (is_ram ? budgets.ram_given : budgets.max_pinned_given) = true;
      const Result<Placement> again = place_tensors(made.tensors, made.config, budgets);
      // Another budget may be the next to be too small.
      const bool same = again.has_error() &&
                        is_ram == (again.error().message.find("ram_bytes") != std::string::npos);
      return !same;
    };
    EXPECT_TRUE(try_with(smallest)) << reason;
    EXPECT_FALSE(try_with(smallest - 1)) << reason;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(planned, 1'000);
  EXPECT_GT(refused, 100);
}

TEST(PlacementPropertyTest, MoreMemoryNeverKeepsLess) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Case made = random_case(random);
    made.config = {};
    made.budgets.max_pinned_bytes = 64 * kMiB;
    made.budgets.ram_bytes = 0;
    const std::uint64_t none = place_tensors(made.tensors, made.config, made.budgets)->nvme_bytes;
    made.budgets.ram_bytes = std::uint64_t{1} << 50;
    const Placement all = place_tensors(made.tensors, made.config, made.budgets).value();
    EXPECT_LE(all.nvme_bytes, none);
    for (std::size_t i = 0; i < made.tensors.size(); ++i) {
      const bool is_used = made.tensors[i].reads_per_step + made.tensors[i].writes_per_step > 0;
      if (made.tensors[i].swappable && is_used) {
        EXPECT_EQ(all.tensors[i].place, Place::kRam);
      }
    }
  }
}

TEST(PlacementPropertyTest, TheSameQuestionHasTheSameAnswer) {
  std::mt19937 random(7);
  const Case made = random_case(random);
  const Result<Placement> once = place_tensors(made.tensors, made.config, made.budgets);
  const Result<Placement> twice = place_tensors(made.tensors, made.config, made.budgets);
  ASSERT_EQ(once.has_value(), twice.has_value());
  if (once.has_value()) {
    EXPECT_EQ(once->pool(), twice->pool());
    for (std::size_t i = 0; i < once->tensors.size(); ++i) {
      EXPECT_EQ(once->tensors[i].place, twice->tensors[i].place);
    }
  }
}

}  // namespace
}  // namespace penstock
