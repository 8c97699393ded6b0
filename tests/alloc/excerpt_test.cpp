#include "alloc/excerpt.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(Excerpt, LeavesOrdinaryTextAsItIs) {
  EXPECT_EQ(excerpt(""), "");
  EXPECT_EQ(excerpt("model.layers.10.weight"), "model.layers.10.weight");
  EXPECT_EQ(excerpt("größe 層 𝛼"), "größe 層 𝛼");
}

TEST(Excerpt, HasNoControlCharacters) {
  EXPECT_EQ(excerpt("a\nb\tc\x7f\x1b[1m"), "a b c  [1m");
  EXPECT_EQ(excerpt(std::string_view("\0x", 2)), " x");
}

TEST(Excerpt, IsUtf8WhateverTheBytesAre) {
  EXPECT_EQ(excerpt("\xff\xfe"), "??");
  EXPECT_EQ(excerpt("\xc3"), "?") << "cut off";
  EXPECT_EQ(excerpt("\xc3("), "?(");
  EXPECT_EQ(excerpt("\xc0\xaf\xe0\x80\xaf"), "?????") << "longer than need be";
  EXPECT_EQ(excerpt("\xed\xa0\x80"), "???") << "half of a pair";
  EXPECT_EQ(excerpt("\xf4\x90\x80\x80"), "????") << "beyond the last letter";
}

TEST(Excerpt, IsShortAndCutsNoLetter) {
  EXPECT_EQ(excerpt(std::string(200, 'x')), std::string(200, 'x'));
  EXPECT_EQ(excerpt(std::string(201, 'x')), std::string(200, 'x') + "...");
  EXPECT_EQ(excerpt(std::string(199, 'x') + "öö"), std::string(199, 'x') + "...");
  EXPECT_EQ(excerpt(std::string(1000, '\xff')), std::string(200, '?') + "...");
}

}  // namespace
}  // namespace penstock
