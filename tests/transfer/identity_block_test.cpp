#include "swap/transfer/identity_block.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

IdentityBlock example() {
  IdentityBlock identity;
  identity.store = 11;
  identity.tensor = 22;
  identity.generation = 33;
  identity.bytes = 44;
  identity.level = 1;
  identity.checksum = 55;
  return identity;
}

std::vector<std::byte> encoded(const IdentityBlock& identity) {
  std::vector<std::byte> block(IdentityBlock::kBytes, std::byte{0xff});
  identity.encode(block);
  return block;
}

TEST(IdentityBlock, KnowsItself) {
  EXPECT_EQ(example().difference(encoded(example())), "");
}

TEST(IdentityBlock, SaysWhatDiffers) {
  const auto changed = [](auto change) {
    IdentityBlock other = example();
    change(other);
    return example().difference(encoded(other));
  };
  EXPECT_EQ(changed([](IdentityBlock& i) { i.store = 1; }), "the bytes of another store");
  EXPECT_EQ(changed([](IdentityBlock& i) { i.tensor = 1; }), "tensor number 1 instead of 22");
  EXPECT_EQ(changed([](IdentityBlock& i) { i.generation = 32; }), "generation 32 instead of 33");
  EXPECT_EQ(changed([](IdentityBlock& i) { i.bytes = 1; }), "length 1 instead of 44");
  EXPECT_EQ(changed([](IdentityBlock& i) { i.checksum = 1; }),
            "another checksum than the one written");
}

TEST(IdentityBlock, EveryDamagedByteOfTheFieldsShows) {
  for (std::size_t i = 0; i < sizeof(IdentityBlock) + 8; ++i) {
    std::vector<std::byte> block = encoded(example());
    block[i] ^= std::byte{4};
    EXPECT_EQ(example().difference(block), "no identity where one was written") << i;
  }
}

TEST(IdentityBlock, ZerosAreNoIdentity) {
  const std::vector<std::byte> zeros(IdentityBlock::kBytes, std::byte{0});
  EXPECT_NE(IdentityBlock().difference(zeros), "");
}

}  // namespace
}  // namespace penstock
