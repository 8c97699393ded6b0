#include "bindings/deepspeed/shard_signature.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ShardSignatureTest, ReadsSaveAndRank) {
  const std::optional<ShardSignature> signature = parse_signature("0f3c11aa 12");
  ASSERT_TRUE(signature);
  EXPECT_EQ(signature->save, "0f3c11aa");
  EXPECT_EQ(signature->rank, 12U);
}

TEST(ShardSignatureTest, AnythingElseIsNone) {
  for (const char* const record :
       {"", " ", " 1", "0f3c", "0f3c ", "0f3c x", "0f3c 1 2", "0f3c -1", "0f3c 99999999999"}) {
    EXPECT_FALSE(parse_signature(record)) << record;
  }
}

}  // namespace
}  // namespace penstock
