#include "swap/schedule/residency.h"

#include <gtest/gtest.h>

#include "tests/schedule/tensor_ids.h"

namespace penstock {
namespace {

using Claim = Residency::Claim;

TEST(Residency, HoldsUpToItsLimit) {
  Residency residency(100);
  EXPECT_TRUE(residency.claim(TensorId{1}, 60, Claim::kSpare));
  EXPECT_FALSE(residency.claim(TensorId{2}, 50, Claim::kSpare));
  EXPECT_TRUE(residency.claim(TensorId{3}, 40, Claim::kSpare));
  EXPECT_EQ(residency.held_bytes(), 100u);
  EXPECT_EQ(residency.room_bytes(), 0u);
  residency.release(TensorId{1});
  residency.release(TensorId{1});
  EXPECT_EQ(residency.room_bytes(), 60u);
}

TEST(Residency, ClaimingTwiceCountsOnce) {
  Residency residency(100);
  EXPECT_TRUE(residency.claim(TensorId{1}, 60, Claim::kSpare));
  EXPECT_TRUE(residency.claim(TensorId{1}, 60, Claim::kRule));
  EXPECT_EQ(residency.held_bytes(), 60u);
}

TEST(Residency, StrongerClaimsNameTheirVictimsLatestFirst) {
  Residency residency(100);
  residency.claim(TensorId{1}, 40, Claim::kSpare);
  residency.claim(TensorId{2}, 30, Claim::kPlan);
  residency.claim(TensorId{3}, 30, Claim::kSpare);
  EXPECT_EQ(residency.victims(30, Claim::kPlan), test::tensors({3}));
  EXPECT_EQ(residency.victims(70, Claim::kPlan), test::tensors({3, 1}));
  EXPECT_EQ(residency.victims(100, Claim::kRule), test::tensors({3, 2, 1}));
}

TEST(Residency, NoVictimsWhereEvenAllWouldNotDo) {
  Residency residency(100);
  residency.claim(TensorId{1}, 40, Claim::kRule);
  residency.claim(TensorId{2}, 60, Claim::kSpare);
  EXPECT_TRUE(residency.victims(61, Claim::kRule).empty());
  EXPECT_TRUE(residency.victims(10, Claim::kSpare).empty());
}

TEST(Residency, StrengthenedClaimsAreNoVictims) {
  Residency residency(100);
  residency.claim(TensorId{1}, 100, Claim::kSpare);
  residency.claim(TensorId{1}, 100, Claim::kRule);
  EXPECT_TRUE(residency.victims(1, Claim::kRule).empty());
}

}  // namespace
}  // namespace penstock
