#include "alloc/page_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock {
namespace {

TEST(PageSource, MapsExactlyWhatIsAskedInPages) {
  const auto source = PageSource::make();
  EXPECT_EQ(source->allocate(1)->bytes(), kBlockBytes);
  EXPECT_EQ(source->allocate(9 * kMiB + 5)->bytes(), 9 * kMiB + kBlockBytes);
  EXPECT_EQ(source->allocate(kGiB + kMiB)->bytes(), kGiB + kMiB) << "no power of two";
}

TEST(PageSource, GivesZeroes) {
  const Result<Memory> memory = PageSource::make()->allocate(3 * kMiB);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(std::ranges::all_of(memory->span(), [](std::byte b) { return b == std::byte{0}; }));
}

}  // namespace
}  // namespace penstock
