#include "swap/store/store_catalog.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "alloc/result.h"

namespace penstock {
namespace {

constexpr std::uint64_t kBytes = 4096;

// Tensors: what they have beside their names, which change.
constexpr std::uint64_t kOld = 1;
constexpr std::uint64_t kOther = 2;
constexpr std::uint64_t kAnother = 3;

CatalogEntry catalog_entry(const std::string& name, std::uint64_t tensor, std::uint64_t generation,
                           std::uint32_t drive = 0, std::uint64_t failed_syncs = 0) {
  StoredTensor stored;
  stored.drive = drive;
  stored.extent = {generation * kBytes, kBytes};
  stored.identity.tensor = tensor;
  stored.identity.generation = generation;
  stored.failed_syncs = failed_syncs;
  return {{name, DType::kU8, {kBytes}, Role::kParam}, std::make_shared<StoredTensor>(stored)};
}

/// "name=generation" of each content, "no name" of each removal.
std::vector<std::string> changes(const StoreCatalog::Batch& batch) {
  std::vector<std::string> all;
  for (const auto& [name, change] : batch) {
    all.push_back(change.content
                      ? fmt::format("{}={}", name, change.content->extent->identity.generation)
                      : "no " + name);
  }
  return all;
}

Error sync_failed() {
  return system_error(EIO, "cannot sync");
}

class StoreCatalogTest : public testing::Test {
 protected:
  StoreCatalogTest() {
    catalog_.restore(catalog_entry("old", kOld, 1));
    catalog_.stage(catalog_entry("other", kOther, 2, 1));
  }

  static std::uint64_t record_bytes(const std::string& name) {
    return StoreCatalog::record_bytes(catalog_entry(name, kOld, 1).info);
  }
  std::vector<std::string> begin() { return changes(catalog_.begin_batch()); }
  std::vector<std::string> batch() const { return changes(catalog_.batch()); }
  /// A publish during which drive 0 fails.
  void publish_unsafe() {
    catalog_.begin_batch();
    catalog_.take_unsafe(0, sync_failed());
    catalog_.end_published();
  }
  std::vector<std::string> published() const {
    std::vector<std::string> all;
    for (const ManifestRecord& record : catalog_.published_records()) {
      const auto& entry = std::get<StoreEntry>(record);
      all.push_back(fmt::format("{}={}", entry.info.name, entry.stored.identity.generation));
    }
    std::ranges::sort(all);
    return all;
  }
  std::vector<std::string> held_back() const {
    std::vector<std::string> all;
    for (const auto& [name, why] : catalog_.held_back()) {
      all.push_back(name);
    }
    return all;
  }

  StoreCatalog catalog_;
};

using Names = std::vector<std::string>;

TEST_F(StoreCatalogTest, PublishesBothHalvesOfARename) {
  catalog_.stage_name("old", "new");
  EXPECT_EQ(begin(), (Names{"new=1", "no old", "other=2"}));
}

TEST_F(StoreCatalogTest, GivesTheNewNameToTheLastSafeContent) {
  catalog_.stage(catalog_entry("old", kOld, 3));
  catalog_.stage_name("old", "new");
  catalog_.begin_batch();
  catalog_.take_unsafe(0, sync_failed());
  EXPECT_EQ(batch(), (Names{"new=1", "no old", "other=2"}));
  catalog_.end_published();
  EXPECT_EQ(held_back(), Names{"new"});
  EXPECT_EQ(catalog_.find("new")->extent->identity.generation, 3U);
  EXPECT_EQ(begin(), Names{});
  catalog_.end_published();
  catalog_.stage(catalog_entry("new", kOld, 4, 0, 1));
  EXPECT_EQ(begin(), Names{"new=4"});
}

TEST_F(StoreCatalogTest, GivesTheNewestOfSeveralNames) {
  catalog_.stage(catalog_entry("old", kOld, 3));
  catalog_.stage_name("old", "new");
  catalog_.stage_name("new", "newer");
  catalog_.begin_batch();
  catalog_.take_unsafe(0, sync_failed());
  EXPECT_EQ(batch(), (Names{"no new", "newer=1", "no old", "other=2"}));
}

TEST_F(StoreCatalogTest, ARenameOfASafeContentNeedsNoSync) {
  catalog_.stage_name("old", "new");
  publish_unsafe();
  EXPECT_EQ(published(), (Names{"new=1", "other=2"}));
  EXPECT_EQ(held_back(), Names{});
}

TEST_F(StoreCatalogTest, ATensorWhoseOldNameAnUnsafeContentTakesIsPublishedOnce) {
  for (const bool put_anew : {false, true}) {
    catalog_ = {};
    catalog_.restore(catalog_entry("old", kOld, 1));
    catalog_.restore(catalog_entry("other", kOther, 2));
    catalog_.stage(catalog_entry("other", kOther, 3));
    publish_unsafe();
    catalog_.stage_name("old", "new");
    catalog_.stage_name("other", "old");
    if (put_anew) {
      catalog_.stage(catalog_entry("new", kOld, 4, 0, 1));
    }
    catalog_.begin_batch();
    catalog_.end_published();
    EXPECT_EQ(published(), (Names{put_anew ? "new=4" : "new=1", "old=2"}));
    EXPECT_EQ(held_back(), Names{"old"});
  }
}

TEST_F(StoreCatalogTest, AnUnsafeFirstContentLeavesNothingUnderTheNameThatItTook) {
  catalog_.stage_name("old", "new");
  catalog_.stage(catalog_entry("old", kAnother, 3));
  publish_unsafe();
  EXPECT_EQ(published(), (Names{"new=1", "other=2"}));
  EXPECT_EQ(held_back(), Names{"old"});
}

TEST_F(StoreCatalogTest, WhatWasForgottenStaysUntilAnotherTensorIsSafeUnderItsName) {
  catalog_.stage_removal("old");
  catalog_.stage(catalog_entry("old", kAnother, 3));
  publish_unsafe();
  EXPECT_EQ(published(), (Names{"old=1", "other=2"}));
  catalog_.stage(catalog_entry("old", kAnother, 4, 0, 1));
  EXPECT_EQ(begin(), Names{"old=4"});
}

TEST_F(StoreCatalogTest, TensorsThatSwapNamesKeepTheirSafeContents) {
  catalog_.begin_batch();
  catalog_.end_published();
  catalog_.stage(catalog_entry("old", kOld, 3));
  catalog_.stage(catalog_entry("other", kOther, 4));
  catalog_.stage_name("old", "meanwhile");
  catalog_.stage_name("other", "old");
  catalog_.stage_name("meanwhile", "other");
  publish_unsafe();
  EXPECT_EQ(published(), (Names{"old=2", "other=1"}));
  EXPECT_EQ(held_back(), (Names{"old", "other"}));
}

TEST_F(StoreCatalogTest, NamesThatChangeDuringAPublishHoldForTheNext) {
  for (const bool fails : {false, true}) {
    catalog_ = {};
    catalog_.restore(catalog_entry("old", kOld, 1));
    catalog_.stage_name("old", "new");
    catalog_.stage(catalog_entry("new", kOld, 4));
    catalog_.stage(catalog_entry("old", kAnother, 5, 1));
    catalog_.begin_batch();
    catalog_.stage_name("old", "newer");
    catalog_.take_unsafe(0, sync_failed());
    EXPECT_EQ(batch(), (Names{"new=1", "old=5"}));
    fails ? catalog_.end_failed(false) : catalog_.end_published();
    EXPECT_EQ(begin(),
              fails ? (Names{"new=1", "newer=5", "no old"}) : (Names{"newer=5", "no old"}));
    catalog_.end_published();
    EXPECT_EQ(published(), (Names{"new=1", "newer=5"}));
    EXPECT_EQ(held_back(), Names{"new"});
  }
}

TEST_F(StoreCatalogTest, SaysWhatItHeldBackAlsoWhereANewerContentHasCome) {
  for (const bool is_early : {false, true}) {
    catalog_ = {};
    catalog_.stage(catalog_entry("old", kOld, 3));
    catalog_.begin_batch();
    if (is_early) {
      catalog_.stage(catalog_entry("old", kOld, 4, 1));
    }
    catalog_.take_unsafe(0, sync_failed());
    EXPECT_EQ(catalog_.has_overtaken(), is_early);
    catalog_.end_published();
    catalog_.stage(catalog_entry("old", kOld, 5, 1));
    EXPECT_TRUE(catalog_.has_overtaken());
    EXPECT_EQ(held_back(), Names{"old"});
    EXPECT_EQ(begin(), Names{"old=5"});
    EXPECT_EQ(held_back(), Names{});
  }
}

TEST_F(StoreCatalogTest, TrustsNothingThatLayBesideAFailedSync) {
  catalog_.begin_batch();
  catalog_.stage(catalog_entry("old", kOld, 3));  // while the drive is being synced
  catalog_.take_unsafe(0, sync_failed());
  catalog_.end_published();
  EXPECT_EQ(begin(), Names{});
  EXPECT_EQ(catalog_.held_back().size(), 1U);
}

TEST_F(StoreCatalogTest, TrustsNothingThatMayHaveBeenWrittenBeforeAFailedSync) {
  catalog_.begin_batch();
  catalog_.take_unsafe(0, sync_failed());
  catalog_.end_published();
  EXPECT_EQ(catalog_.failed_syncs(0), 1U);
  EXPECT_EQ(catalog_.failed_syncs(1), 0U);
  catalog_.stage(catalog_entry("old", kOld, 3));
  catalog_.stage(catalog_entry("elsewhere", kAnother, 4, 1));
  EXPECT_EQ(begin(), Names{"elsewhere=4"});
  catalog_.end_published();
  catalog_.stage(catalog_entry("old", kOld, 5, 0, 1));
  EXPECT_EQ(begin(), Names{"old=5"});
}

TEST_F(StoreCatalogTest, CountsTheRecordOfANameOnceHoweverOftenItIsStaged) {
  const std::uint64_t before = catalog_.waiting_record_bytes();
  EXPECT_EQ(before, record_bytes("other"));
  for (std::uint64_t generation = 3; generation < 9; ++generation) {
    catalog_.stage(catalog_entry("old", kOld, generation));
  }
  EXPECT_EQ(catalog_.waiting_record_bytes(), before + record_bytes("old"));
  catalog_.stage_name("old", "new");
  const std::uint64_t renamed = catalog_.waiting_record_bytes();
  EXPECT_GE(renamed, before + record_bytes("new") + std::string("old").size());
  catalog_.begin_batch();
  EXPECT_EQ(catalog_.waiting_record_bytes(), renamed) << "until it is published";
  catalog_.stage(catalog_entry("new", kOld, 9));
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
  catalog_.stage(catalog_entry("other", kOther, 3, 0));
  catalog_.begin_batch();
  catalog_.end_published();
  EXPECT_EQ(catalog_.waiting_record_bytes(), 0U);
}

}  // namespace
}  // namespace penstock
