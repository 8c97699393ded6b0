#include "swap/store/swap_store.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>

#include "alloc/bytes.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

PathConfig path(const std::string& directory) {
  return {directory, std::nullopt, std::nullopt};
}

bool overlap(const Extent& a, const Extent& b) {
  return a.offset < b.end() && b.offset < a.end();
}

TEST(SwapStore, LeavesNoNameBehind) {
  TempDirectory directory;
  {
    auto store = SwapStore::open_scratch({path(directory / "deep/er")});
    ASSERT_TRUE(store.has_value());
    ASSERT_TRUE(store.value()->reserve(1, 1, 1000).has_value());
    EXPECT_TRUE(std::filesystem::is_empty(directory / "deep/er"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory / "deep/er"));
}

TEST(SwapStore, ExtentsHoldBodyTailAndIdentity) {
  TempDirectory directory;
  auto store = SwapStore::open_scratch({path(directory.path())}).value();
  const StoredTensor whole = store->reserve(1, 1, 8192).value();
  EXPECT_EQ(whole.body_bytes(), 8192u);
  EXPECT_EQ(whole.tail_bytes(), 0u);
  EXPECT_EQ(whole.extent.bytes, 8192u + 4096u);
  const StoredTensor odd = store->reserve(2, 1, 8193).value();
  EXPECT_EQ(odd.body_bytes(), 8192u);
  EXPECT_EQ(odd.tail_bytes(), 1u);
  EXPECT_EQ(odd.extent.bytes, 8192u + 4096u + 4096u);
  EXPECT_FALSE(overlap(whole.extent, odd.extent));
}

TEST(SwapStore, TheNextGenerationNeverLiesOverTheLast) {
  TempDirectory directory;
  auto store = SwapStore::open_scratch({path(directory.path())}).value();
  StoredTensor last = store->reserve(1, 1, 3 * kMiB).value();
  for (std::uint64_t generation = 2; generation < 20; ++generation) {
    const StoredTensor next = store->reserve(1, generation, 3 * kMiB).value();
    EXPECT_FALSE(overlap(last.extent, next.extent));
    store->release(last);
    last = next;
  }
  EXPECT_LE(store->used_bytes(), 3 * kMiB + 2 * kBlockBytes);
}

TEST(SwapStore, FillsDrivesByTheirWeights) {
  TempDirectory a;
  TempDirectory b;
  PathConfig light = path(a.path());
  light.weight = 1.0;
  PathConfig heavy = path(b.path());
  heavy.weight = 3.0;
  auto store = SwapStore::open_scratch({light, heavy}).value();
  std::map<std::uint32_t, int> count;
  for (std::uint64_t tensor = 0; tensor < 100; ++tensor) {
    ++count[store->reserve(tensor, 1, kMiB).value().drive];
  }
  EXPECT_NEAR(count[0], 25, 2);
  EXPECT_NEAR(count[1], 75, 2);
}

TEST(SwapStore, TriesTheNextDriveWhenOneIsFull) {
  TempDirectory a;
  TempDirectory b;
  PathConfig small = path(a.path());
  small.max_bytes = 2 * kMiB;
  auto store = SwapStore::open_scratch({small, path(b.path())}).value();
  for (std::uint64_t tensor = 0; tensor < 10; ++tensor) {
    ASSERT_TRUE(store->reserve(tensor, 1, kMiB).has_value()) << tensor;
  }
}

TEST(SwapStore, SaysWhichPathIsFull) {
  TempDirectory directory;
  PathConfig small = path(directory.path());
  small.max_bytes = 2 * kMiB;
  auto store = SwapStore::open_scratch({small}).value();
  ASSERT_TRUE(store->reserve(1, 1, kMiB).has_value());
  const Result<StoredTensor> refused = store->reserve(2, 1, kMiB);
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().system_errno(), ENOSPC);
  EXPECT_EQ(refused.error().path, directory.path());
  EXPECT_NE(refused.error().message.find("penstock.paths"), std::string::npos);
}

TEST(SwapStore, PathsThatCannotBe) {
  TempDirectory directory;
  std::ofstream(directory / "file") << "in the way";
  const auto in_the_way = SwapStore::open_scratch({path(directory / "file")});
  ASSERT_TRUE(in_the_way.has_error());
  EXPECT_EQ(in_the_way.error().path, directory / "file");
  EXPECT_NE(in_the_way.error().system_errno(), 0);
  const auto none = SwapStore::open_scratch({});
  ASSERT_TRUE(none.has_error());
  EXPECT_NE(none.error().message.find("nvme_path"), std::string::npos);
}

}  // namespace
}  // namespace penstock
