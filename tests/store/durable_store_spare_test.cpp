#include <gtest/gtest.h>

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

}  // namespace
}  // namespace penstock
