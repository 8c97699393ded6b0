#include "swap/store/durable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/store/durable_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Access = DurableStoreOptions::Access;

class DurableStoreDrivesTest : public DurableFixture {
 protected:
  /// A store with four tensors on two drives.
  void home_and_other() {
    auto store = open({path(directory_ / "store"), path(directory_ / "other")});
    for (unsigned i = 0; i < 4; ++i) {
      ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(5000, i)));
    }
    for (const DriveState& drive : store->drive_states()) {
      ASSERT_GT(drive.used_bytes, 0U);
    }
    ASSERT_TRUE(store->close());
  }

  void expect_all(DurableStore& store) {
    for (unsigned i = 0; i < 4; ++i) {
      EXPECT_TRUE(holds(store, "t" + std::to_string(i), content(5000, i)));
    }
    ASSERT_TRUE(store.close());
  }
};

TEST_F(DurableStoreDrivesTest, NoStoreIsBegunOnADriveOfAnother) {
  const std::vector<PathConfig> paths{path(directory_ / "store"), path(directory_ / "other")};
  auto store = open(paths);
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  ASSERT_TRUE(store->close());
  store.reset();

  const Opened turned =
      DurableStore::open({directory_ / "other", Access::kWrite, {paths[1], paths[0]}});
  ASSERT_TRUE(turned.has_error());
  EXPECT_EQ(turned.error().system_errno(), ENOTEMPTY);
  EXPECT_THAT(turned.error().message, HasSubstr("name " + paths[0].path + " first"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "other/manifest"));
  store = open(paths);
  EXPECT_TRUE(holds(*store, "a", content(5000, 1)));
}

TEST_F(DurableStoreDrivesTest, ADirectoryIsNamedOnce) {
  std::filesystem::create_directories(directory_ / "store");
  std::filesystem::create_directory_symlink(directory_ / "store", directory_ / "link");
  const Opened refused = try_open({path(directory_ / "store"), path(directory_ / "link")});
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().system_errno(), EINVAL);
  EXPECT_THAT(refused.error().message, HasSubstr("one directory"));
  EXPECT_TRUE(try_open({path(directory_ / "store"), path(directory_ / "store/")}).has_value());
}

/// As a drive that is mounted elsewhere. As a new drive it would be emptied.
TEST_F(DurableStoreDrivesTest, ADriveThatWasMovedIsNoNewOne) {
  const PathConfig home = path(directory_ / "store");
  home_and_other();
  std::filesystem::rename(directory_ / "other", directory_ / "moved");
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Opened refused = try_open({home, path(directory_ / "moved")});
    ASSERT_TRUE(refused.has_error()) << attempt;
    EXPECT_EQ(refused.error().system_errno(), EEXIST);
    EXPECT_THAT(refused.error().message, HasSubstr("named as before"));
  }
  std::filesystem::create_directory_symlink(directory_ / "moved", directory_ / "other");
  expect_all(*open({home, path(directory_ / "other")}));
  expect_all(*open({home, path(directory_ / "moved")}));  // one drive, whichever of its names
}

TEST_F(DurableStoreDrivesTest, ACopyOfAStoreIsNotOpenedWithItsDrivesUnderOtherNames) {
  home_and_other();
  const auto options = std::filesystem::copy_options::recursive;
  std::filesystem::copy(directory_ / "store", directory_ / "store2", options);
  std::filesystem::copy(directory_ / "other", directory_ / "other2", options);
  const Opened refused =
      DurableStore::open({directory_ / "store2",
                          Access::kWrite,
                          {path(directory_ / "store2"), path(directory_ / "other2")}});
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().system_errno(), EEXIST);
  expect_all(*open({path(directory_ / "store"), path(directory_ / "other")}));
}

/// The path is named while the drive is not mounted there yet.
TEST_F(DurableStoreDrivesTest, ADriveThatComesToAPathThatIsKnownKeepsItsContents) {
  const PathConfig home = path(directory_ / "store");
  home_and_other();
  std::filesystem::rename(directory_ / "other", directory_ / "unplugged");
  auto store = open({home, path(directory_ / "point")});
  EXPECT_TRUE(store->drive_states()[1].missing);
  ASSERT_TRUE(store->close());
  store.reset();
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "unplugged")) {
    std::filesystem::rename(entry, directory_ / "point" / entry.path().filename());
  }
  store = open({home, path(directory_ / "point")});
  ASSERT_TRUE(put(*store, "new", content(100'000, 9)));
  ASSERT_TRUE(store->close());
  store.reset();
  std::filesystem::create_directory(directory_ / "other");  // the drive is where it was
  for (const auto& entry : std::filesystem::directory_iterator(directory_ / "point")) {
    std::filesystem::copy(entry, directory_ / "other" / entry.path().filename());
  }
  expect_all(*open({home, path(directory_ / "other"), path(directory_ / "point")}));
}

TEST_F(DurableStoreDrivesTest, DrivesInEachOthersPlaceAreMissingAndKeepTheirContents) {
  const std::vector<PathConfig> paths{path(directory_ / "store"), path(directory_ / "b"),
                                      path(directory_ / "c")};
  auto store = open(paths);
  for (unsigned i = 0; i < 9; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(5000 + 4000 * (i % 3), i)));
  }
  ASSERT_TRUE(store->close());
  store.reset();
  const auto exchange = [this] {
    std::filesystem::rename(directory_ / "b", directory_ / "between");
    std::filesystem::rename(directory_ / "c", directory_ / "b");
    std::filesystem::rename(directory_ / "between", directory_ / "c");
  };
  exchange();
  store = open(paths);
  EXPECT_TRUE(store->drive_states()[1].missing);
  EXPECT_TRUE(store->drive_states()[2].missing);
  ASSERT_TRUE(put(*store, "new", content(100'000, 9)));
  ASSERT_TRUE(store->close());
  store.reset();
  exchange();
  store = open(paths);
  for (unsigned i = 0; i < 9; ++i) {
    EXPECT_TRUE(holds(*store, "t" + std::to_string(i), content(5000 + 4000 * (i % 3), i))) << i;
  }
  EXPECT_TRUE(holds(*store, "new", content(100'000, 9)));
}

TEST_F(DurableStoreDrivesTest, AnEmptiedDriveThatIsALinkToAnotherTakesNothingFromIt) {
  const PathConfig home{directory_ / "store", std::nullopt, 0};
  auto store = open({home, path(directory_ / "old")});
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  ASSERT_TRUE(store->close());
  store.reset();
  store = open({home, {directory_ / "old", std::nullopt, 0}, path(directory_ / "new")});
  ASSERT_TRUE(put(*store, "a", content(5000, 2)));
  ASSERT_TRUE(store->close());
  store.reset();
  std::filesystem::remove_all(directory_ / "old");
  std::filesystem::create_directory_symlink(directory_ / "new", directory_ / "old");
  for (int round = 0; round < 2; ++round) {
    store = open({home, path(directory_ / "new")});
    EXPECT_TRUE(holds(*store, "a", content(5000, 2))) << round;
    ASSERT_TRUE(store->close());
    store.reset();
  }
}

TEST_F(DurableStoreDrivesTest, TwoDotsBehindALinkAreTheKernels) {
  std::filesystem::create_directories(directory_ / "real/deep");
  std::filesystem::create_directory_symlink(directory_ / "real/deep", directory_ / "link");
  auto store = open({path(directory_ / "store"), path(directory_ / "link/../other")});
  EXPECT_TRUE(std::filesystem::exists(directory_ / "real/other"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "other"));
}

TEST_F(DurableStoreDrivesTest, TwoStoresMayShareADrive) {
  auto store = open({path(directory_ / "store"), path(directory_ / "shared")});
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  Opened second = DurableStore::open(
      {directory_ / "second",
       Access::kWrite,
       {path(directory_ / "second"), path(directory_ / "shared"), path(directory_ / "store")}});
  ASSERT_TRUE(second.has_value()) << second.error().message;
  ASSERT_TRUE(put(**second, "b", content(5000, 2)));
  EXPECT_TRUE(holds(*store, "a", content(5000, 1)));
  EXPECT_TRUE(holds(**second, "b", content(5000, 2)));
}

TEST_F(DurableStoreDrivesTest, DrivesKeepTheirWeights) {
  PathConfig light = path(directory_ / "store");
  light.weight = 1.0;
  PathConfig heavy = path(directory_ / "other");
  heavy.weight = 3.0;
  auto store = open({light, heavy});
  for (unsigned i = 0; i < 40; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(4096, i)));
  }
  ASSERT_TRUE(store->close());
  store = open_trusting({directory_ / "other"});  // the manifest remembers both
  const std::vector<DriveState> drives = store->drive_states();
  ASSERT_EQ(drives.size(), 2U);
  EXPECT_NEAR(static_cast<double>(drives[1].used_bytes) / static_cast<double>(drives[0].used_bytes),
              3.0, 0.3);
  EXPECT_EQ(drives[1].weight, 3.0);
  for (unsigned i = 0; i < 40; ++i) {
    EXPECT_TRUE(holds(*store, "t" + std::to_string(i), content(4096, i)));
  }
}

TEST_F(DurableStoreDrivesTest, ADriveOfNoBytesIsReadAndTakesNothingNew) {
  const PathConfig home = path(directory_ / "store");
  auto store = open({home, path(directory_ / "other")});
  for (unsigned i = 0; i < 8; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(4096, i)));
  }
  ASSERT_TRUE(store->close());
  PathConfig other = path(directory_ / "other");
  other.max_bytes = 0;
  store = open({home, other});
  const std::uint64_t before = store->drive_states()[1].used_bytes;
  ASSERT_GT(before, 0U);
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_TRUE(holds(*store, "t" + std::to_string(i), content(4096, i)));
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(4096, 100 + i)));
  }
  ASSERT_TRUE(store->publish());
  EXPECT_EQ(store->drive_states()[1].used_bytes, 0U) << "everything new went home";
}

TEST_F(DurableStoreDrivesTest, ContentsElsewhereAreOpenedOnlyWhereTheCallerNamesThem) {
  const PathConfig home = path(directory_ / "store");
  auto store = open({home, path(directory_ / "other")});
  for (unsigned i = 0; i < 8; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(4096, i)));
  }
  ASSERT_TRUE(store->close());
  const auto check = [&](DurableStore& opened) {
    ASSERT_TRUE(opened.drive_states()[1].missing);
    EXPECT_THAT(opened.drive_states()[1].missing->message, HasSubstr("only where you name it"));
    EXPECT_EQ(opened.drive_states()[1].used_bytes, 0U);
  };
  check(*open_to_read());
  check(*open({home}));
  store = open_trusting({directory_ / "other"});
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_TRUE(holds(*store, "t" + std::to_string(i), content(4096, i)));
  }
}

TEST_F(DurableStoreDrivesTest, OfADriveThatIsGoneEachTensorSaysSoAndTheRestIsRead) {
  auto store = open({path(directory_ / "store"), path(directory_ / "other")});
  for (unsigned i = 0; i < 8; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(4096, i)));
  }
  ASSERT_TRUE(store->close());
  std::filesystem::remove_all(directory_ / "other");
  store = open_trusting({directory_ / "other"});
  ASSERT_TRUE(store->drive_states()[1].missing);
  unsigned lost = 0;
  for (const CatalogEntry& entry : store->contents()) {
    const Result<void> there = store->check_readable(*entry.extent, entry.info.name);
    if (there.has_error()) {
      ++lost;
      EXPECT_EQ(there.error().tensor, entry.info.name);
      EXPECT_THAT(there.error().message, HasSubstr(directory_ / "other"));
      EXPECT_EQ(there.error().system_errno(), ENOENT);
    } else {
      EXPECT_EQ(entry.extent->drive, 0U);
    }
  }
  EXPECT_EQ(lost, 4U);
  for (unsigned i = 0; i < 8; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(4096, 50 + i)));
  }
  ASSERT_TRUE(store->close());
  store = open_trusting({directory_ / "other"});
  for (unsigned i = 0; i < 8; ++i) {
    EXPECT_TRUE(holds(*store, "t" + std::to_string(i), content(4096, 50 + i)));
  }
  EXPECT_FALSE(store->drive_states()[1].missing) << "it holds nothing now, so it was made anew";
}

}  // namespace
}  // namespace penstock
