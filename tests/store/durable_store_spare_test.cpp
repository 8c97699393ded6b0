#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "alloc/bytes.h"
#include "tests/store/durable_fixture.h"
#include "tests/store/flaky_file_system.h"

namespace penstock {
namespace {

/// What a durable store keeps free for its journal.
class DurableStoreSpareTest : public DurableFixture {
 protected:
  DurableStoreSpareTest() : store_(open({}, system_)) {}

  std::uint64_t spare_bytes() const {
    return std::filesystem::file_size(directory_ / "store/spare");
  }
  /// Of some KiB each, as the journal will hold them.
  void stage(const std::string& name) {
    if (!content_) {
      content_ = store_->hold(store_->reserve(store_->number_tensor(), 1, kBlockBytes).value());
    }
    ASSERT_TRUE(store_->stage(
        {std::string(4 * kKiB, 'n') + name, DType::kU8, {kBlockBytes}, Role::kParam}, content_));
  }

  FlakyFileSystem system_;  // outlives the store
  std::unique_ptr<DurableStore> store_;
  HeldExtent content_;
};

TEST_F(DurableStoreSpareTest, OneNameTakesTheRoomOfOneRecordHoweverOftenItIsPut) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_NO_FATAL_FAILURE(stage("a"));
  }
  EXPECT_EQ(spare_bytes(), kMiB);
}

TEST_F(DurableStoreSpareTest, ShrinksWithThePublish) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_NO_FATAL_FAILURE(stage(std::to_string(i)));
  }
  EXPECT_GE(spare_bytes(), 4 * kMiB);
  ASSERT_TRUE(store_->publish());
  EXPECT_EQ(spare_bytes(), kMiB);
}

TEST_F(DurableStoreSpareTest, ForgetsWhatWasStagedAndTakenBackWithoutAPublish) {
  for (int i = 0; i < 1000; ++i) {
    ASSERT_NO_FATAL_FAILURE(stage("a"));
    system_.set_fault([](const std::string& call) {
      return call.starts_with("sync") && call.find("tensors-") != std::string::npos ? EIO : 0;
    });
    EXPECT_TRUE(store_->publish().has_error());
    system_.set_fault({});
    EXPECT_TRUE(store_->publish().has_error()) << "nothing to publish but what is not safe";
  }
  EXPECT_EQ(spare_bytes(), kMiB);
}

/// As others may have taken the rest of the drive meanwhile.
TEST_F(DurableStoreSpareTest, AStoreThatWasClosedIsOpenedOnAFullDrive) {
  const std::uintmax_t as_kept = spare_bytes();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(put(*store_, std::string(4000, 'n') + std::to_string(i), content(10, 1)));
  }
  ASSERT_TRUE(store_->close());
  store_.reset();
  const std::uintmax_t left = spare_bytes();
  EXPECT_GT(left, std::filesystem::file_size(directory_ / "store/manifest"));
  EXPECT_LT(left, as_kept + kMiB);
  bool full = true;
  system_.set_fault([&full](const std::string& call) {
    full = full && !(call.starts_with("truncate") && call.ends_with("spare"));
    return call.starts_with("write") && call.ends_with("manifest.new") && full ? ENOSPC : 0;
  });
  store_ = open({}, system_);
  EXPECT_FALSE(full);
  store_->stage_removal(store_->contents().front().info.name);
  EXPECT_TRUE(store_->close());
}

/// Of a drive that is full, and that another program fills again as soon as something is free.
TEST_F(DurableStoreSpareTest, AStoreThatWasOpenedOnAFullDriveIsClosedThere) {
  ASSERT_TRUE(put(*store_, "a", content(10, 1)));
  ASSERT_TRUE(store_->close());
  bool has_room = false;
  system_.set_fault([&](const std::string& call) {
    const bool is_released = call.starts_with("truncate") && call.ends_with("spare");
    has_room = has_room || (is_released && spare_bytes() > 0);
    const bool grows = call.starts_with("write") || call.starts_with("reserve");
    return grows && !call.ends_with("lock") && !has_room ? ENOSPC : 0;
  });
  for (int session = 0; session < 3; ++session) {
    store_.reset();
    has_room = false;
    store_ = open({}, system_);
    has_room = false;
    EXPECT_TRUE(store_->close());
  }
}

TEST_F(DurableStoreSpareTest, ACloseLeavesNoMoreThanTheNextManifestNeeds) {
  for (int i = 0; i < 400; ++i) {
    ASSERT_TRUE(put(*store_, std::string(4000, 'n') + std::to_string(i), content(10, 1)));
  }
  ASSERT_TRUE(store_->publish());
  for (const CatalogEntry& entry : store_->contents()) {
    store_->stage_removal(entry.info.name);
  }
  ASSERT_TRUE(store_->close());
  for (int session = 0; session < 2; ++session) {
    store_.reset();
    store_ = open({}, system_);
    ASSERT_TRUE(store_->close());
  }
  EXPECT_LE(spare_bytes(), std::filesystem::file_size(directory_ / "store/manifest") + kBlockBytes);
}

TEST_F(DurableStoreSpareTest, AnOpenThatFailsOtherwiseLeavesIt) {
  ASSERT_TRUE(put(*store_, "a", content(10, 1)));
  ASSERT_TRUE(store_->close());
  store_.reset();
  const std::uintmax_t left = spare_bytes();
  system_.set_fault([](const std::string& call) {
    return call.starts_with("write") && call.ends_with("manifest.new") ? EIO : 0;
  });
  EXPECT_TRUE(try_open({}, system_).has_error());
  EXPECT_EQ(spare_bytes(), left);
}

/// Nothing knows who has it then, and the next writer signs it.
TEST_F(DurableStoreSpareTest, AFullDriveHasNoRoomForTheLocksText) {
  ASSERT_TRUE(store_->close());
  store_.reset();
  for (const std::uintmax_t bytes : {0U, 400U}) {
    std::filesystem::resize_file(directory_ / "store/lock", bytes);
    system_.set_fault([](const std::string& call) {
      return call.starts_with("write") && call.ends_with("lock") ? ENOSPC : 0;
    });
    store_ = open({}, system_);
    EXPECT_EQ(std::filesystem::file_size(directory_ / "store/lock"), 0U);
    EXPECT_TRUE(try_open().has_error());
    system_.set_fault({});
    store_.reset();
    store_ = open({}, system_);
    EXPECT_GT(std::filesystem::file_size(directory_ / "store/lock"), 0U);
    store_.reset();
  }
}

/// Of an older version, or after a close that found no room for it.
TEST_F(DurableStoreSpareTest, WithoutASpareAFullDriveIsSaidAndStaysAsItIs) {
  ASSERT_TRUE(put(*store_, "a", content(10, 1)));
  ASSERT_TRUE(store_->close());
  store_.reset();
  std::filesystem::remove(directory_ / "store/spare");
  system_.set_fault([](const std::string& call) {
    return call.starts_with("write") && call.ends_with("manifest.new") ? ENOSPC : 0;
  });
  const Opened refused = try_open({}, system_);
  ASSERT_TRUE(refused.has_error());
  EXPECT_TRUE(refused.error().is_full());
  EXPECT_THAT(refused.error().message, testing::HasSubstr("penstock export"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "store/spare"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "store/manifest.new"));
  EXPECT_EQ(open_to_read()->contents().size(), 1U);
}

}  // namespace
}  // namespace penstock
