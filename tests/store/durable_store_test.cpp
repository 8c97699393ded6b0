#include "swap/store/durable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "alloc/bytes.h"
#include "tests/store/durable_fixture.h"
#include "tests/store/flaky_file_system.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Access = DurableStoreOptions::Access;

class DurableStoreTest : public DurableFixture {};

TEST_F(DurableStoreTest, WhatWasPublishedIsThereAgain) {
  {
    auto store = open();
    ASSERT_TRUE(put(*store, "layers.10.w", content(3 * kMiB + 5, 1)));
    ASSERT_TRUE(put(*store, "layers.2.w", content(100, 2)));
    ASSERT_TRUE(store->publish());
    ASSERT_TRUE(put(*store, "layers.2.w", content(100, 3)));  // staged, and lost with the process
  }
  auto store = open();
  ASSERT_EQ(store->contents().size(), 2U);
  EXPECT_EQ(store->contents().front().info.name, "layers.2.w") << "natural order";
  EXPECT_TRUE(holds(*store, "layers.10.w", content(3 * kMiB + 5, 1)));
  EXPECT_TRUE(holds(*store, "layers.2.w", content(100, 2)));
}

TEST_F(DurableStoreTest, APublishedContentIsNeverWrittenOverBeforeTheNextPublish) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(kMiB, 0)));
  ASSERT_TRUE(store->publish());
  for (unsigned round = 1; round < 10; ++round) {
    ASSERT_TRUE(put(*store, "a", content(kMiB, round)));
  }
  store.reset();
  EXPECT_TRUE(holds(*open(), "a", content(kMiB, 0)));
}

TEST_F(DurableStoreTest, SpaceGoesBackWhenThePublishSupersedesIt) {
  auto store = open();
  for (unsigned round = 0; round < 20; ++round) {
    ASSERT_TRUE(put(*store, "a", content(kMiB, round)));
    ASSERT_TRUE(store->publish());
    EXPECT_EQ(store->used_bytes(), kMiB + kBlockBytes);
  }
}

TEST_F(DurableStoreTest, RemovedAndRenamedWithTheNextPublish) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(10, 1)));
  ASSERT_TRUE(put(*store, "b", content(10, 2)));
  ASSERT_TRUE(store->publish());
  store->stage_removal("a");
  store->stage_name("b", "c");
  EXPECT_FALSE(store->find("a"));
  EXPECT_FALSE(store->find("b"));
  store.reset();
  store = open();
  EXPECT_TRUE(holds(*store, "a", content(10, 1))) << "not published";
  store->stage_removal("a");
  store->stage_name("b", "c");
  ASSERT_TRUE(store->publish());
  store.reset();
  store = open();
  EXPECT_EQ(store->contents().size(), 1U);
  EXPECT_TRUE(holds(*store, "c", content(10, 2)));
  EXPECT_EQ(store->used_bytes(), 2 * kBlockBytes) << "the space of a is free";
}

TEST_F(DurableStoreTest, NotesBelongToTheStore) {
  auto store = open();
  store->stage_note("format", "pt");
  ASSERT_TRUE(store->publish());
  store.reset();
  EXPECT_EQ(open()->notes().at("format"), "pt");
}

TEST_F(DurableStoreTest, FilesAreTheOwnersAndAsLongAsTheirContents) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(100, 1)));
  ASSERT_TRUE(store->close());
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(directory_ / "store")) {
    struct ::stat facts{};
    ASSERT_EQ(::stat(file.path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777U, 0600U) << file.path();
    names.push_back(file.path().filename().string());
    if (names.back().starts_with("tensors-")) {
      EXPECT_EQ(file.file_size(), 2 * kBlockBytes);
    }
  }
  EXPECT_EQ(names.size(), 4U) << "lock, manifest, contents, spare";
}

TEST_F(DurableStoreTest, TheSecondOpenerLearnsWhoTheFirstIs) {
  auto store = open();
  for (const Access access : {Access::kWrite, Access::kRead}) {
    const Opened second = try_open({}, os_file_system(), access);
    ASSERT_TRUE(second.has_error());
    EXPECT_EQ(second.error().system_errno(), EBUSY);
    EXPECT_EQ(second.error().path, directory_ / "store");
    EXPECT_THAT(second.error().message, HasSubstr("process " + std::to_string(::getpid())));
  }
  const auto home = os_file_system().open_directory(directory_ / "store").value();
  EXPECT_THAT(StoreLock::holder(*home).value_or(""), HasSubstr(std::to_string(::getpid())));
  store.reset();
  EXPECT_FALSE(StoreLock::holder(*home));
  EXPECT_TRUE(try_open());
}

TEST_F(DurableStoreTest, WritesThatOutliveTheirProcessAreWaitedFor) {
  auto store = open();
  ASSERT_TRUE(put(*store, "a", content(5000, 1)));
  const std::string contents = store->drive_states().front().path;
  ASSERT_TRUE(store->close());
  store.reset();
  std::optional<File> writes = File::open(contents, File::Access::kReadWrite).value();
  ASSERT_TRUE(writes->try_lock().value());  // as requests do, which keep the file open
  std::atomic<bool> ended{false};
  std::thread kernel([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ended = true;
    writes.reset();
  });
  store = open();
  EXPECT_TRUE(ended);
  kernel.join();
  EXPECT_TRUE(holds(*store, "a", content(5000, 1)));
}

TEST_F(DurableStoreTest, NoStoreIsMadeWhereOthersKeepTheirFiles) {
  std::filesystem::create_directories(directory_ / "store");
  std::ofstream(directory_ / "store/model.safetensors") << "x";
  const Opened refused = try_open();
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().system_errno(), ENOTEMPTY);
  EXPECT_THAT(refused.error().message, HasSubstr("model.safetensors"));
}

TEST_F(DurableStoreTest, ReadingMakesNothing) {
  Opened none = try_open({}, os_file_system(), Access::kRead);
  ASSERT_TRUE(none.has_error());
  EXPECT_EQ(none.error().system_errno(), ENOENT);
  std::filesystem::create_directories(directory_ / "store");
  none = try_open({}, os_file_system(), Access::kRead);
  ASSERT_TRUE(none.has_error());
  EXPECT_THAT(none.error().message, HasSubstr("is no durable store"));
  EXPECT_TRUE(std::filesystem::is_empty(directory_ / "store"));
}

TEST_F(DurableStoreTest, AStoreMayBeMoved) {
  {
    auto store = open();
    ASSERT_TRUE(put(*store, "a", content(5000, 1)));
    ASSERT_TRUE(store->close());
  }
  std::filesystem::rename(directory_ / "store", directory_ / "moved");
  auto moved = DurableStore::open({directory_ / "moved", Access::kRead, {}}).value();
  EXPECT_TRUE(holds(*moved, "a", content(5000, 1)));
}

TEST_F(DurableStoreTest, AFileCutShortTakesItsOwnTensorsAlong) {
  auto store = open();
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(8192, i)));
  }
  ASSERT_TRUE(store->close());
  const std::string file = store->drive_states()[0].path;
  store.reset();
  std::filesystem::resize_file(file, 16 * kKiB);
  const Opened refused = try_open();
  ASSERT_TRUE(refused.has_error());
  EXPECT_THAT(refused.error().message, HasSubstr("is cut short"));
  EXPECT_EQ(std::filesystem::file_size(file), 16 * kKiB);
  store = open_to_read();
  unsigned lost = 0;
  for (const CatalogEntry& entry : store->contents()) {
    const Result<void> there = store->check_readable(*entry.extent, entry.info.name);
    lost += there.has_error() ? 1U : 0U;
    EXPECT_EQ(there.has_value(), entry.extent->extent.end() <= 16 * kKiB);
  }
  EXPECT_EQ(lost, 3U);
}

TEST_F(DurableStoreTest, SeveralReadAndNoneWritesMeanwhile) {
  {
    auto store = open();
    ASSERT_TRUE(put(*store, "a", content(5000, 1)));
    ASSERT_TRUE(store->close());
  }
  std::filesystem::remove(directory_ / "store/spare");
  const auto listing = [&] {
    std::map<std::string, std::filesystem::file_time_type> files;
    for (const auto& file : std::filesystem::directory_iterator(directory_ / "store")) {
      files[file.path().string()] = file.last_write_time();
    }
    return files;
  };
  const auto before = listing();
  const auto first = open_to_read();
  const auto second = open_to_read();
  EXPECT_TRUE(holds(*second, "a", content(5000, 1)));
  const Opened writer = try_open();
  ASSERT_TRUE(writer.has_error());
  EXPECT_EQ(writer.error().system_errno(), EBUSY);
  EXPECT_THAT(writer.error().message, HasSubstr("another process reads it"));
  EXPECT_EQ(listing(), before);
}

TEST_F(DurableStoreTest, ARefusedDirectoryGetsNoLockFile) {
  std::filesystem::create_directories(directory_ / "store/of another program");
  EXPECT_EQ(try_open().error().system_errno(), ENOTEMPTY);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "store/lock"));
}

/// Every file of a store in turn is a link to a file elsewhere, which stays as it is.
TEST_F(DurableStoreTest, LinksInAStoreAreNotFollowed) {
  {
    auto store = open();
    ASSERT_TRUE(put(*store, "a", content(5000, 1)));
    ASSERT_TRUE(store->close());
  }
  std::string data;
  for (const auto& file : std::filesystem::directory_iterator(directory_ / "store")) {
    const std::string name = file.path().filename().string();
    data = name.starts_with("tensors-") ? name : data;
  }
  const std::string victim = directory_ / "victim";
  for (const std::string& name : {std::string("lock"), std::string("spare"),
                                  std::string("manifest"), std::string("manifest.new"), data}) {
    const std::string hostile = directory_ / "hostile";
    std::filesystem::copy(directory_ / "store", hostile);
    std::ofstream(victim) << "precious";
    std::filesystem::remove(hostile + "/" + name);
    std::filesystem::create_symlink(victim, hostile + "/" + name);
    for (const Access access : {Access::kRead, Access::kWrite}) {
      Opened opened = DurableStore::open({hostile, access, {}});
      if (opened.has_value()) {  // of what is not read, or is removed before it is made
        EXPECT_TRUE(access == Access::kRead || name == "manifest.new") << name;
        opened->reset();
      } else {
        EXPECT_EQ(opened.error().system_errno(), ELOOP) << name << ": " << opened.error().message;
      }
      std::string text;
      std::getline(std::ifstream(victim), text);
      EXPECT_EQ(text, "precious") << name;
    }
    std::filesystem::remove_all(hostile);
  }
}

TEST_F(DurableStoreTest, WithinItsQuotaAPublishMakesRoom) {
  PathConfig home = path(directory_ / "store");
  home.max_bytes = 3 * (kMiB + kBlockBytes);
  auto store = open({home});
  for (unsigned round = 0; round < 10; ++round) {
    ASSERT_TRUE(put(*store, "a", content(kMiB, round))) << round;
    ASSERT_TRUE(put(*store, "b", content(kMiB, 100 + round))) << round;
  }
  const Result<void> refused = put(*store, "c", content(2 * kMiB, 1));
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().system_errno(), ENOSPC);
  ASSERT_TRUE(store->close());
  store = open();
  EXPECT_TRUE(holds(*store, "a", content(kMiB, 9)));
  EXPECT_TRUE(holds(*store, "b", content(kMiB, 109)));
}

TEST_F(DurableStoreTest, ALongJournalIsWrittenAnew) {
  FlakyFileSystem system;  // thousands of syncs that are none
  auto store = open({}, system);
  ASSERT_TRUE(put(*store, "a", content(10, 0)));
  std::uint64_t longest = 0;
  for (unsigned i = 0; i < 1500; ++i) {
    store->stage_note("round", std::to_string(i));
    ASSERT_TRUE(store->publish());
    longest = std::max(longest, std::filesystem::file_size(directory_ / "store/manifest"));
  }
  EXPECT_LE(longest, 4 * kMiB + 16 * kKiB);
  EXPECT_LE(std::filesystem::file_size(directory_ / "store/manifest"), 3 * kMiB);
  EXPECT_FALSE(std::filesystem::exists(directory_ / "store/manifest.new"));
  store.reset();
  store = open();
  EXPECT_EQ(store->notes().at("round"), "1499");
  EXPECT_TRUE(holds(*store, "a", content(10, 0)));
}

}  // namespace
}  // namespace penstock
