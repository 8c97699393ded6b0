#include "swap/plan/residents.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ResidentsTest, KeepsTheOrderOfUseAmongEquals) {
  const std::vector<ResidentCandidate> candidates{{4, 2}, {4, 2}, {4, 2}};
  EXPECT_EQ(choose_residents(candidates, 8), (std::vector<bool>{true, true, false}));
}

TEST(ResidentsTest, SpreadsEqualsOverTheOrderOfUse) {
  const std::vector<ResidentCandidate> candidates(6, {4, 2});
  EXPECT_EQ(choose_residents(candidates, 12),
            (std::vector<bool>{true, false, true, false, true, false}));
}

TEST(ResidentsTest, FillsTheBudgetWhereSpreadingLeavesRoom) {
  const std::vector<ResidentCandidate> candidates{{4, 2}, {1, 2}, {4, 2}, {1, 2}};
  EXPECT_EQ(choose_residents(candidates, 6), (std::vector<bool>{true, true, false, true}));
}

TEST(ResidentsTest, SkipsWhatNoLongerFits) {
  const std::vector<ResidentCandidate> candidates{{6, 2}, {5, 2}, {2, 2}};
  EXPECT_EQ(choose_residents(candidates, 9), (std::vector<bool>{true, false, true}));
}

TEST(ResidentsTest, PrefersWhatSavesMostPerByte) {
  const std::vector<ResidentCandidate> candidates{{4, 2}, {4, 3}};
  EXPECT_EQ(choose_residents(candidates, 4), (std::vector<bool>{false, true}));
}

TEST(ResidentsTest, KeepsNothingThatSavesNothing) {
  const std::vector<ResidentCandidate> candidates{{4, 0}};
  EXPECT_EQ(choose_residents(candidates, 100), (std::vector<bool>{false}));
}

}  // namespace
}  // namespace penstock
