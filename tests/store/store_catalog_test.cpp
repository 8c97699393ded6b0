#include "swap/store/store_catalog.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "alloc/result.h"

namespace penstock {
namespace {

constexpr std::uint64_t kBytes = 4096;

CatalogEntry catalog_entry(const std::string& name, std::uint64_t generation,
                           std::uint32_t drive = 0, std::uint64_t failed_syncs = 0) {
  StoredTensor stored;
  stored.drive = drive;
  stored.extent = {generation * kBytes, kBytes};
  stored.identity.generation = generation;
  stored.failed_syncs = failed_syncs;
  return {{name, DType::kU8, {kBytes}, Role::kParam}, std::make_shared<StoredTensor>(stored)};
}

std::vector<std::string> names(const StoreCatalog::Batch& changes) {
  std::vector<std::string> all;
  for (const auto& [name, change] : changes) {
    all.push_back(change.content ? name : "no " + name);
  }
  return all;
}

Error sync_failed() {
  return system_error(EIO, "cannot sync");
}

class StoreCatalogTest : public testing::Test {
 protected:
  StoreCatalogTest() { begin_anew(); }

  void begin_anew() {
    catalog_ = {};
    catalog_.restore(catalog_entry("old", 1));
    catalog_.stage(catalog_entry("other", 2, 1));
  }

  static std::uint64_t record_bytes(const std::string& name) {
    return StoreCatalog::record_bytes(catalog_entry(name, 1).info);
  }
  std::vector<std::string> begin() { return names(catalog_.begin_batch()); }

  StoreCatalog catalog_;
};

TEST_F(StoreCatalogTest, PublishesBothHalvesOfARename) {
  catalog_.stage_name("old", "new");
  EXPECT_EQ(begin(), (std::vector<std::string>{"new", "no old", "other"}));
}

TEST_F(StoreCatalogTest, KeepsTheOldNameUntilTheNewOneIsSafe) {
  catalog_.stage(catalog_entry("old", 3));
  catalog_.stage_name("old", "new");
  catalog_.begin_batch();
  catalog_.take_unsafe(0, sync_failed());
  EXPECT_EQ(names(catalog_.batch()), std::vector<std::string>{"other"});
  catalog_.end_published();
  EXPECT_EQ(begin(), std::vector<std::string>{});
  catalog_.end_published();
  catalog_.stage(catalog_entry("new", 4, 0, 1));
  EXPECT_EQ(begin(), (std::vector<std::string>{"new", "no old"}));
}

TEST_F(StoreCatalogTest, KeepsTheFirstOfSeveralNames) {
  catalog_.stage(catalog_entry("old", 3));
  catalog_.stage_name("old", "new");
  catalog_.stage_name("new", "newer");
  catalog_.begin_batch();
  catalog_.take_unsafe(0, sync_failed());
  EXPECT_EQ(names(catalog_.batch()), std::vector<std::string>{"other"});
}

TEST_F(StoreCatalogTest, ReservesTheOldNameOfAnUnsafeRename) {
  catalog_.stage(catalog_entry("old", 3));
  catalog_.stage_name("old", "new");
  catalog_.begin_batch();
  catalog_.take_unsafe(0, sync_failed());
  catalog_.end_published();
  catalog_.stage(catalog_entry("old", 5, 1));  // another tensor
  EXPECT_EQ(begin(), std::vector<std::string>{});
  catalog_.end_published();
  catalog_.stage_removal("new");
  EXPECT_EQ(begin(), (std::vector<std::string>{"no new", "old"}));
}

/// What the manifest has under it is the last safe content of the tensor that moved on first.
TEST_F(StoreCatalogTest, ReservesTheOldNameAlsoWhereAnotherTensorHadItAndMovedOn) {
  catalog_.stage_name("old", "new");
  catalog_.stage(catalog_entry("new", 4));
  catalog_.begin_batch();
  catalog_.take_unsafe(0, sync_failed());
  catalog_.end_published();
  catalog_.stage(catalog_entry("old", 5, 1));
  catalog_.stage_name("old", "newer");
  EXPECT_EQ(begin(), std::vector<std::string>{"newer"});
}

TEST_F(StoreCatalogTest, ReservesTheOldNameAlsoWhereAnotherTensorTakesItDuringThePublish) {
  for (const bool fails : {false, true}) {
    catalog_.stage_name("old", "new");
    catalog_.stage(catalog_entry("new", 4));
    catalog_.begin_batch();
    catalog_.stage(catalog_entry("old", 5, 1));
    if (fails) {
      catalog_.end_failed(false);
      catalog_.begin_batch();
    }
    catalog_.take_unsafe(0, sync_failed());
    catalog_.end_published();
    EXPECT_EQ(begin(), std::vector<std::string>{}) << fails;
    begin_anew();
  }
}

TEST_F(StoreCatalogTest, TrustsNothingThatLayBesideAFailedSync) {
  catalog_.begin_batch();
  catalog_.stage(catalog_entry("old", 3));  // while the drive is being synced
  catalog_.take_unsafe(0, sync_failed());
  catalog_.end_published();
  EXPECT_EQ(begin(), std::vector<std::string>{});
  EXPECT_EQ(catalog_.unsafe().size(), 1U);
}

TEST_F(StoreCatalogTest, TrustsNothingThatMayHaveBeenWrittenBeforeAFailedSync) {
  catalog_.begin_batch();
  catalog_.take_unsafe(0, sync_failed());
  catalog_.end_published();
  EXPECT_EQ(catalog_.failed_syncs(0), 1U);
  EXPECT_EQ(catalog_.failed_syncs(1), 0U);
  catalog_.stage(catalog_entry("old", 3));
  catalog_.stage(catalog_entry("elsewhere", 4, 1));
  EXPECT_EQ(begin(), std::vector<std::string>{"elsewhere"});
  catalog_.end_published();
  catalog_.stage(catalog_entry("old", 5, 0, 1));
  EXPECT_EQ(begin(), std::vector<std::string>{"old"});
}

TEST_F(StoreCatalogTest, CountsTheRecordOfANameOnceHoweverOftenItIsStaged) {
  const std::uint64_t before = catalog_.waiting_record_bytes();
  EXPECT_EQ(before, record_bytes("other"));
  for (std::uint64_t generation = 3; generation < 9; ++generation) {
    catalog_.stage(catalog_entry("old", generation));
  }
  EXPECT_EQ(catalog_.waiting_record_bytes(), before + record_bytes("old"));
  catalog_.stage_name("old", "new");
  const std::uint64_t renamed = catalog_.waiting_record_bytes();
  EXPECT_GE(renamed, before + record_bytes("new") + std::string("old").size());
  catalog_.begin_batch();
  EXPECT_EQ(catalog_.waiting_record_bytes(), renamed) << "until it is published";
  catalog_.stage(catalog_entry("new", 9));
  EXPECT_EQ(catalog_.waiting_record_bytes(), renamed + record_bytes("new"));
  catalog_.end_failed(false);
  EXPECT_EQ(catalog_.waiting_record_bytes(), renamed) << "the newer content has overtaken";
  catalog_.begin_batch();
  catalog_.end_published();
  EXPECT_EQ(catalog_.waiting_record_bytes(), 0U);
}

TEST_F(StoreCatalogTest, CountsRecordsThatCannotBecomeSafeUntilTheyAreStagedAgain) {
  catalog_.begin_batch();
  catalog_.take_unsafe(1, sync_failed());
  EXPECT_EQ(catalog_.waiting_record_bytes(), record_bytes("other"));
  catalog_.end_published();
  catalog_.begin_batch();
  EXPECT_EQ(catalog_.waiting_record_bytes(), record_bytes("other"));
  catalog_.end_published();
  catalog_.stage(catalog_entry("other", 3, 0));
  catalog_.begin_batch();
  catalog_.end_published();
  EXPECT_EQ(catalog_.waiting_record_bytes(), 0U);
}

}  // namespace
}  // namespace penstock
