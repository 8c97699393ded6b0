#include "swap/engine/overflow_advice.h"

#include <gmock/gmock.h>

#include "alloc/bytes.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

class OverflowAdvice : public testing::Test {
 protected:
  OverflowAdvice() {
    stats_.overflow_buffers = 12;
    stats_.overflow_ns = 1'250'000'000;
    stats_.held_bytes_max = 112 * kMiB;
    stats_.held_overflow_bytes_max = 52 * kMiB;
    stats_.pinned_bytes_needed = 128 * kMiB;
    budgets_.max_pinned_bytes = 64 * kMiB;
    budgets_.ram_given = true;
    budgets_.quarter_bytes = kGiB;
  }
  std::string sentence() const { return overflow_advice(stats_, budgets_, memlock_).value(); }

  SwapStats stats_;
  Budgets budgets_;
  std::optional<std::uint64_t> memlock_;
};

TEST_F(OverflowAdvice, SaysWhatWasNeededWhatItCostAndTheValueThatEndsIt) {
  EXPECT_EQ(sentence(),
            "buffers of 112.0 MiB were held at once, up to 52.0 MiB of them in pageable memory "
            "because max_pinned_bytes is 64.0 MiB, which cost 1.25 s of waiting for it; "
            "\"max_pinned_bytes\": \"128MiB\" in the penstock block pins all of them. All is right "
            "without it, too.");
}

TEST_F(OverflowAdvice, SaysWhereItCostNothing) {
  stats_.overflow_ns = 3'000'000;
  EXPECT_THAT(sentence(), HasSubstr("which cost next to no time"));
}

TEST_F(OverflowAdvice, SaysWhyLittleDidNotFit) {
  stats_.held_bytes_max = 800 * kKiB;
  EXPECT_THAT(sentence(),
              HasSubstr("because the slots of their size were taken: max_pinned_bytes is 64.0"));
}

TEST_F(OverflowAdvice, CountsWhatIsPinnedForDevices) {
  stats_.staging_bytes = 16 * kMiB;
  EXPECT_THAT(sentence(), HasSubstr("max_pinned_bytes is 80.0 MiB"));
  stats_.staging_bytes = 64 * kMiB;
  EXPECT_EQ(overflow_advice(stats_, budgets_, memlock_), std::nullopt) << "that is there already";
}

TEST_F(OverflowAdvice, KeepsResidentsWhereTheirBudgetWouldShrink) {
  budgets_.ram_given = false;
  EXPECT_THAT(sentence(), Not(HasSubstr("ram_bytes")));
  budgets_.ram_bytes = 3 * kGiB;
  EXPECT_THAT(sentence(), HasSubstr("beside \"ram_bytes\": \"3072MiB\" as it is now"));
}

TEST_F(OverflowAdvice, NamesTheLimitOfAMachineThatCannotPinThatMuch) {
  EXPECT_THAT(sentence(), Not(HasSubstr("ulimit")));
  memlock_ = 8 * kMiB;
  EXPECT_THAT(sentence(), HasSubstr("may pin 8.0 MiB only: raise `ulimit -l` first"));
  EXPECT_THAT(sentence(), Not(HasSubstr("quarter")));
  budgets_.quarter_bytes = 100 * kMiB;
  EXPECT_THAT(sentence(), HasSubstr("more than a quarter of the memory"));
  EXPECT_THAT(sentence(), HasSubstr("(100.0 MiB)"));
}

TEST_F(OverflowAdvice, IsSilentWithoutACause) {
  stats_.overflow_buffers = 0;
  EXPECT_EQ(overflow_advice(stats_, budgets_, memlock_), std::nullopt);
  stats_.overflow_buffers = 1;
  stats_.pinned_bytes_needed = 64 * kMiB;
  EXPECT_EQ(overflow_advice(stats_, budgets_, memlock_), std::nullopt);
}

}  // namespace
}  // namespace penstock
