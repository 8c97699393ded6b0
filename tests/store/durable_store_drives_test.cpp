#include "swap/store/durable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "tests/store/durable_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Access = DurableStoreOptions::Access;

class DurableStoreDrivesTest : public DurableFixture {};

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
