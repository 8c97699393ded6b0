#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/store/durable_fixture.h"
#include "tests/store/flaky_file_system.h"

namespace penstock {
namespace {

using testing::HasSubstr;

/// Files of a store that go away, or change, beneath it.
class DurableStoreRemovedTest : public DurableFixture {
 protected:
  std::string manifest() const { return directory_ / "store/manifest"; }
  std::string copy_of_manifest() const { return directory_ / "manifest.copy"; }
};

TEST_F(DurableStoreRemovedTest, AManifestThatWasRemovedIsMadeAgain) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  ASSERT_TRUE(store->publish());
  std::filesystem::remove(manifest());
  ASSERT_TRUE(put(*store, "b", content(5000, 2)));
  EXPECT_TRUE(store->publish());
  store.reset();
  store = open();
  EXPECT_TRUE(holds(*store, "a", content(5000, 1)));
  EXPECT_TRUE(holds(*store, "b", content(5000, 2)));
}

TEST_F(DurableStoreRemovedTest, AManifestThatIsAnothersStays) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  ASSERT_TRUE(store->publish());
  std::filesystem::copy_file(manifest(), copy_of_manifest());
  ASSERT_TRUE(put(*store, "b", content(5000, 2)));
  ASSERT_TRUE(store->publish());
  std::filesystem::rename(copy_of_manifest(), manifest());
  for (int attempt = 0; attempt < 2; ++attempt) {
    ASSERT_TRUE(put(*store, "c", content(5000, 3)));
    const Result<void> published = store->publish();
    ASSERT_TRUE(published.has_error());
    EXPECT_EQ(published.error().path, manifest());
  }
  store.reset();
  store = open();
  EXPECT_TRUE(holds(*store, "a", content(5000, 1)));
  EXPECT_FALSE(store->find("c"));
}

/// As `cp` does with a backup: the file stays, its bytes are others.
TEST_F(DurableStoreRemovedTest, AManifestThatWasChangedInPlaceIsMadeAgain) {
  open()->close().value();
  std::filesystem::copy_file(manifest(), copy_of_manifest());
  const std::vector<std::function<void()>> changes{
      [this] { std::filesystem::resize_file(manifest(), 0); },
      [this] { std::filesystem::resize_file(manifest(), kBlockBytes); },
      [this] {
        const std::uintmax_t bytes = std::filesystem::file_size(manifest());
        std::filesystem::resize_file(manifest(), 0);
        std::filesystem::resize_file(manifest(), bytes);
      },
      [this] {
        std::filesystem::copy_file(copy_of_manifest(), manifest(),
                                   std::filesystem::copy_options::overwrite_existing);
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (const std::string last : {"put", "flush", "close"}) {
      auto store = open();
      ASSERT_TRUE(put(*store, "a", content(5000, 1)));
      ASSERT_TRUE(store->publish());
      changes[i]();
      if (last == "put") {
        ASSERT_TRUE(put(*store, "b", content(5000, 2)));
      }
      EXPECT_TRUE(last == "close" ? store->close() : store->publish());
      store.reset();
      store = open();
      EXPECT_TRUE(holds(*store, "a", content(5000, 1))) << i << " " << last;
      EXPECT_TRUE(last != "put" || holds(*store, "b", content(5000, 2))) << i;
    }
  }
}

TEST_F(DurableStoreRemovedTest, WhatIsInAFileThatWasRemovedIsNotSafeUntilItIsPutAgain) {
  auto store = open({path(directory_ / "store"), path(directory_ / "other")});
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(5000, i)));
  }
  ASSERT_TRUE(store->publish());
  const std::string removed = store->drive_states()[1].path;
  ASSERT_GT(store->drive_states()[1].used_bytes, 0U);
  std::filesystem::remove(removed);
  ASSERT_TRUE(put(*store, "new", content(5000, 9)));
  const Result<void> published = store->publish();
  ASSERT_TRUE(published.has_error());
  EXPECT_EQ(published.error().system_errno(), ENOENT);
  EXPECT_EQ(published.error().path, removed);
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_TRUE(holds(*store, "t" + std::to_string(i), content(5000, i))) << "it is still open";
  }
  store->note_failure(*store->find("t1")->extent);  // others go first from now on
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(5000, 10 + i)));
  }
  ASSERT_TRUE(put(*store, "new", content(5000, 9)));
  EXPECT_TRUE(store->publish());
  ASSERT_TRUE(store->close());
  store = open_trusting({directory_ / "other"});
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_TRUE(holds(*store, "t" + std::to_string(i), content(5000, 10 + i)));
  }
}

TEST_F(DurableStoreRemovedTest, WhatIsInAFileThatWasCutIsNotSafeUntilItIsPutAgain) {
  auto store = open();
  ASSERT_TRUE(put(*store, "safe", content(5000, 1)));
  ASSERT_TRUE(store->publish());
  const std::string cut = store->drive_states()[0].path;
  const std::uintmax_t bytes = std::filesystem::file_size(cut);
  for (const bool writes_on : {false, true}) {
    ASSERT_TRUE(put(*store, "a", content(5000, 2)));
    std::filesystem::resize_file(cut, store->find("safe")->extent->extent.end());
    if (writes_on) {  // which makes the file longer again
      ASSERT_TRUE(put(*store, "b", content(5000, 3)));
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      const Result<void> published = store->publish();
      ASSERT_TRUE(published.has_error());
      EXPECT_EQ(published.error().path, cut);
      EXPECT_EQ(published.error().tensor, "a");
      EXPECT_THAT(published.error().message, HasSubstr("was cut to"));
      EXPECT_EQ(published.error().message.find(", b)") != std::string::npos, writes_on);
    }
    EXPECT_EQ(std::filesystem::file_size(cut), bytes);
    ASSERT_TRUE(put(*store, "a", content(5000, 4)));
    ASSERT_TRUE(put(*store, "b", content(5000, 5)));
    EXPECT_TRUE(store->publish());
  }
  ASSERT_TRUE(store->close());
  store = open();
  EXPECT_TRUE(holds(*store, "safe", content(5000, 1)));
  EXPECT_TRUE(holds(*store, "a", content(5000, 4)));
  EXPECT_TRUE(holds(*store, "b", content(5000, 5)));
}

TEST_F(DurableStoreRemovedTest, ACutIsNotHiddenByAContentThatEndsWhereTheFileDid) {
  PathConfig small = path(directory_ / "store");
  small.max_bytes = 1 * kMiB;
  auto store = open({small});
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  const DriveState drive = store->drive_states()[0];
  std::filesystem::resize_file(drive.path, 0);
  const std::uint64_t rest = drive.file_bytes - drive.used_bytes - IdentityBlock::kBytes;
  ASSERT_TRUE(put(*store, "b", content(rest, 2)));
  ASSERT_EQ(std::filesystem::file_size(drive.path), drive.file_bytes);
  const Result<void> published = store->publish();
  ASSERT_TRUE(published.has_error());
  EXPECT_EQ(published.error().path, drive.path);
  EXPECT_EQ(published.error().tensor, "a");
}

/// Nothing is to be published, or to grow, without a word of it.
TEST_F(DurableStoreRemovedTest, AFileThatWasCutIsAnErrorOfEveryPublish) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  ASSERT_TRUE(store->publish());
  const DriveState drive = store->drive_states()[0];
  std::filesystem::resize_file(drive.path, 0);
  EXPECT_FALSE(put(*store, "larger", content(drive.file_bytes, 2)));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Result<void> published = store->publish();
    ASSERT_TRUE(published.has_error());
    EXPECT_EQ(published.error().path, drive.path);
    store->stage_name("a", "another name");
  }
  EXPECT_FALSE(store->close());
}

TEST_F(DurableStoreRemovedTest, NoStoreIsBegunOverTheContentsOfOneWithoutManifest) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  ASSERT_TRUE(store->close());
  store.reset();
  std::filesystem::rename(manifest(), copy_of_manifest());
  const Opened refused = try_open();
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().system_errno(), ENOTEMPTY);
  EXPECT_THAT(refused.error().message, HasSubstr("manifest is gone"));
  std::filesystem::rename(copy_of_manifest(), manifest());
  EXPECT_TRUE(holds(*open(), "a", content(5000, 1)));
}

/// As when a backup is looked into, and found to be too old.
TEST_F(DurableStoreRemovedTest, AnOlderManifestCutsNothingOffWhereNothingIsPut) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  ASSERT_TRUE(store->close());
  const std::string older = directory_ / "manifest.older";
  std::filesystem::copy_file(manifest(), older);
  store = open();
  ASSERT_TRUE(put(*store, "b", content(5000, 2)));
  ASSERT_TRUE(store->close());
  std::filesystem::rename(manifest(), copy_of_manifest());
  std::filesystem::copy_file(older, manifest());
  store = open();
  EXPECT_FALSE(store->find("b"));
  ASSERT_TRUE(store->close());
  store.reset();
  std::filesystem::rename(copy_of_manifest(), manifest());
  EXPECT_TRUE(holds(*open(), "b", content(5000, 2)));
}

TEST_F(DurableStoreRemovedTest, ADriveThatMayNotBeWrittenIsRead) {
  FlakyFileSystem system;
  const std::vector<PathConfig> paths{path(directory_ / "store"), path(directory_ / "other")};
  auto store = open(paths);
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(5000, i)));
  }
  ASSERT_TRUE(store->close());
  system.set_fault([](const std::string& call) {
    const bool changes = call.starts_with("open") || call.starts_with("truncate");
    return changes && call.find("other/tensors") != std::string::npos ? EROFS : 0;
  });
  store = open(paths, system);
  EXPECT_FALSE(store->drive_states()[1].missing);
  const std::uint64_t there = store->drive_states()[1].used_bytes;
  ASSERT_GT(there, 0U);
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_TRUE(holds(*store, "t" + std::to_string(i), content(5000, i)));
    ASSERT_TRUE(put(*store, "new" + std::to_string(i), content(5000, i)));
  }
  EXPECT_EQ(store->drive_states()[1].used_bytes, there) << "it takes nothing";
  store->stage_removal("t1");
  EXPECT_TRUE(store->close());
}

TEST_F(DurableStoreRemovedTest, ALimitBelowWhatIsUsedIsKept) {
  auto store = open();
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(kMiB, i)));
  }
  ASSERT_TRUE(store->publish());
  store->stage_removal("t1");  // a gap that the next one would fit in
  ASSERT_TRUE(store->publish());
  store.reset();
  store = open({{directory_ / "store", std::nullopt, 2 * kMiB}});
  const auto refused = put(*store, "new", content(kMiB, 9));
  ASSERT_TRUE(refused.has_error());
  EXPECT_TRUE(refused.error().is_full());
  EXPECT_THAT(refused.error().message, HasSubstr("that penstock.paths allows"));
}

}  // namespace
}  // namespace penstock
