#include "alloc/size_class.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "alloc/bytes.h"

namespace penstock {
namespace {

// What must hold of any answer: ascending, disjoint, whole blocks, every size in exactly one class.
void expect_partition(const std::vector<SizeClass>& classes, std::span<const SizeCount> sizes) {
  std::uint64_t tensors = 0;
  for (std::size_t index = 0; index < classes.size(); ++index) {
    EXPECT_TRUE(is_aligned(classes[index].slot_bytes, kBlockBytes));
    EXPECT_LE(classes[index].smallest_bytes, classes[index].slot_bytes);
    tensors += classes[index].tensors;
    if (index != 0) {
      EXPECT_LT(classes[index - 1].slot_bytes, classes[index].slot_bytes);
      EXPECT_LT(classes[index - 1].slot_bytes, classes[index].smallest_bytes);
    }
  }
  std::uint64_t expected_tensors = 0;
  for (const SizeCount& size : sizes) {
    if (size.bytes == 0) {
      continue;
    }
    expected_tensors += size.tensors;
    const auto holds = [&](const SizeClass& size_class) {
      return size_class.smallest_bytes <= size.bytes && size.bytes <= size_class.slot_bytes;
    };
    EXPECT_EQ(std::ranges::count_if(classes, holds), 1) << size.bytes << " bytes";
  }
  EXPECT_EQ(tensors, expected_tensors);
}

TEST(SizeClass, NothingGivesNothing) {
  EXPECT_TRUE(make_size_classes({}).empty());
  EXPECT_TRUE(make_size_classes(std::vector<SizeCount>{{0, 5}}).empty());
}

TEST(SizeClass, SizesOfOneBlockCountShareASlot) {
  const std::vector<SizeCount> sizes = {{100, 2}, {256, 56}, {4096, 1}, {4097, 3}};
  const std::vector<SizeClass> classes = make_size_classes(sizes);
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].slot_bytes, 4096U);
  EXPECT_EQ(classes[0].smallest_bytes, 100U);
  EXPECT_EQ(classes[0].tensors, 59U);
  EXPECT_EQ(classes[1].slot_bytes, 8192U);
  expect_partition(classes, sizes);
}

TEST(SizeClass, MergesWithinTheWasteAndNotBeyond) {
  const std::vector<SizeCount> sizes = {{100 * kMiB, 1}, {102 * kMiB, 1}, {103 * kMiB, 1}};
  const std::vector<SizeClass> classes = make_size_classes(sizes, {.max_waste = 0.02});
  ASSERT_EQ(classes.size(), 2U);
  EXPECT_EQ(classes[0].slot_bytes, 102 * kMiB);
  EXPECT_EQ(classes[1].slot_bytes, 103 * kMiB);
  EXPECT_EQ(make_size_classes(sizes, {.max_waste = 0.03}).size(), 1U);
  EXPECT_EQ(make_size_classes(sizes, {.max_waste = 0}).size(), 3U);
}

// Qwen3-0.6B: hidden 1024, intermediate 3072, 16 heads and 8 key-value heads of 128, 28 layers,
// tied embeddings of 151936 tokens, in bf16. Its 310 tensors have 7 sizes, and no two may share a
// slot at 2 %: a pool with one buffer size would be as large as 297 MiB times their number.
TEST(SizeClass, OfQwen3WasteAlmostNothing) {
  constexpr std::uint64_t kHidden = 1024;
  constexpr std::uint32_t kLayers = 28;
  const std::vector<SizeCount> sizes = {
      {2 * 151936 * kHidden, 1},              // embedding
      {2 * 3072 * kHidden, 3 * kLayers},      // gate, up, down
      {2 * 16 * 128 * kHidden, 2 * kLayers},  // query, output
      {2 * 8 * 128 * kHidden, 2 * kLayers},   // key, value
      {2 * kHidden, 2 * kLayers + 1},         // norms
      {2 * 128, 2 * kLayers},                 // norms of query and key
  };
  const std::vector<SizeClass> classes = make_size_classes(sizes);
  expect_partition(classes, sizes);
  ASSERT_EQ(classes.size(), 5U);
  std::uint64_t slot_bytes = 0;
  std::uint64_t live_bytes = 0;
  for (const SizeClass& size_class : classes) {
    slot_bytes += size_class.slot_bytes * size_class.tensors;
  }
  for (const SizeCount& size : sizes) {
    live_bytes += size.bytes * size.tensors;
  }
  EXPECT_LT(static_cast<double>(slot_bytes), static_cast<double>(live_bytes) * 1.001);
  EXPECT_EQ(classes.back().slot_bytes, 2 * 151936 * kHidden);
  EXPECT_EQ(classes.front().tensors, 2 * kLayers + 1 + 2 * kLayers);
}

TEST(SizeClass, WidensTheWasteJustEnoughForTheMost) {
  std::vector<SizeCount> sizes;
  for (std::uint64_t step = 1; step <= 200; ++step) {
    sizes.push_back({step * kMiB, 1});
  }
  std::size_t before = 201;
  for (const std::uint32_t most : {200U, 64U, 10U, 2U, 1U, 0U}) {
    const std::vector<SizeClass> classes =
        make_size_classes(sizes, {.max_waste = 0, .classes_max = most});
    expect_partition(classes, sizes);
    EXPECT_LE(classes.size(), std::max(most, 1U));
    EXPECT_LE(classes.size(), before) << "fewer allowed, never more made";
    before = classes.size();
  }
}

class SizeClassRandom : public testing::TestWithParam<unsigned> {};

TEST_P(SizeClassRandom, IsAPartitionWithinItsBound) {
  std::mt19937_64 random(GetParam());
  std::vector<SizeCount> sizes;
  for (std::size_t count = random() % 300; count != 0; --count) {
    sizes.push_back({random() % (std::uint64_t{1} << (random() % 34)),
                     static_cast<std::uint32_t>(random() % 5)});
  }
  const SizeClassOptions options{.max_waste = 0.05, .classes_max = 1000};
  const std::vector<SizeClass> classes = make_size_classes(sizes, options);
  expect_partition(classes, sizes);
  for (const SizeClass& size_class : classes) {
    const bool one_block_count =
        align_up(size_class.smallest_bytes, kBlockBytes) == size_class.slot_bytes;
    EXPECT_TRUE(one_block_count || static_cast<double>(size_class.slot_bytes) <=
                                       static_cast<double>(size_class.smallest_bytes) * 1.05);
  }
  // A wider bound never needs more classes.
  std::size_t before = classes.size();
  for (const double waste : {0.1, 0.2, 0.5, 1.0, 10.0}) {
    const std::size_t now = make_size_classes(sizes, {.max_waste = waste}).size();
    EXPECT_LE(now, before);
    before = now;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SizeClassRandom, testing::Range(1U, 21U));

}  // namespace
}  // namespace penstock
