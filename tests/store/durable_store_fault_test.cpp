#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "alloc/bytes.h"
#include "tests/store/durable_fixture.h"
#include "tests/store/flaky_file_system.h"

namespace penstock {
namespace {

using testing::HasSubstr;

class DurableStoreFaultTest : public DurableFixture {
 protected:
  /// Fails the next call whose text contains both words, once or for ever.
  void fail(const std::string& verb, const std::string& file, int error, bool once = true) {
    system_.set_fault([=, done = false](const std::string& call) mutable {
      const bool hit = !done && call.starts_with(verb) && call.find(file) != std::string::npos;
      done = done || (hit && once);
      return hit ? error : 0;
    });
  }
  static std::size_t place(const std::vector<std::string>& calls, const std::string& verb,
                           const std::string& file) {
    const auto found = std::ranges::find_if(calls, [&](const std::string& call) {
      return call.starts_with(verb) && call.find(file) != std::string::npos;
    });
    EXPECT_NE(found, calls.end()) << verb << ' ' << file;
    return static_cast<std::size_t>(found - calls.begin());
  }

  FlakyFileSystem system_;
};

TEST_F(DurableStoreFaultTest, ContentsAreSafeBeforeTheManifestNamesThem) {
  auto store = open({}, system_);
  ASSERT_TRUE(put(*store, "a", content(10, 1)));
  (void)system_.take_calls();
  ASSERT_TRUE(store->publish());
  const std::vector<std::string> calls = system_.take_calls();
  EXPECT_LT(place(calls, "sync", "tensors-"), place(calls, "write", "manifest"));
  EXPECT_LT(place(calls, "write", "manifest"), place(calls, "sync", "manifest"));
}

TEST_F(DurableStoreFaultTest, AJournalThatCannotBeWrittenOrSyncedBeginsAnew) {
  for (const std::string verb : {"write", "sync"}) {
    auto store = open({}, system_);
    ASSERT_TRUE(put(*store, verb, content(10, 1)));
    fail(verb, "/manifest", EIO);
    EXPECT_TRUE(store->publish()) << verb;
    store.reset();
    system_.set_fault({});
    EXPECT_TRUE(holds(*open(), verb, content(10, 1)));
  }
}

TEST_F(DurableStoreFaultTest, WhileTheManifestIsInDoubtNeitherContentIsWrittenOver) {
  auto store = open({}, system_);
  ASSERT_TRUE(put(*store, "a", content(kMiB, 1)));
  ASSERT_TRUE(store->publish());
  // From the second publish on nothing is certain: the batch may have come through or not.
  ASSERT_TRUE(put(*store, "a", content(kMiB, 2)));
  system_.set_fault([](const std::string& call) {
    return call.starts_with("sync") && call.find("manifest") != std::string::npos ? EIO : 0;
  });
  EXPECT_TRUE(store->publish().has_error());
  EXPECT_TRUE(put(*store, "a", content(kMiB, 3)));
  EXPECT_TRUE(store->publish().has_error());
  EXPECT_TRUE(put(*store, "a", content(kMiB, 4)));
  EXPECT_EQ(store->used_bytes(), 4 * (kMiB + kBlockBytes)) << "any of them may be what is named";
  system_.set_fault({});
  EXPECT_TRUE(store->publish());
  EXPECT_EQ(store->used_bytes(), kMiB + kBlockBytes);
  store.reset();
  EXPECT_TRUE(holds(*open(), "a", content(kMiB, 4)));
}

TEST_F(DurableStoreFaultTest, ANameThatIsNotSafeKeepsTheManifestInDoubt) {
  auto store = open({}, system_);
  ASSERT_TRUE(put(*store, "a", content(10, 1)));
  system_.set_fault([](const std::string& call) {
    const bool append = call.starts_with("write") && call.ends_with("/manifest");
    return append || call.starts_with("syncdir") ? EIO : 0;
  });
  EXPECT_TRUE(store->publish().has_error());
  EXPECT_TRUE(store->publish().has_error());
  system_.set_fault({});
  EXPECT_TRUE(store->publish());
  store.reset();
  EXPECT_TRUE(holds(*open(), "a", content(10, 1)));
}

TEST_F(DurableStoreFaultTest, WhatADriveCannotSyncIsNotPublishedAndSaidUntilItIsPutAgain) {
  auto store = open({path(directory_ / "store"), path(directory_ / "other")}, system_);
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(4096, i)));
  }
  ASSERT_TRUE(store->publish());
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(put(*store, "t" + std::to_string(i), content(4096, 10 + i)));
  }
  fail("sync", "/other/", EIO);
  const Result<void> first = store->publish();
  ASSERT_TRUE(first.has_error());
  EXPECT_EQ(first.error().system_errno(), EIO);
  EXPECT_THAT(first.error().message, HasSubstr("2 tensors"));
  EXPECT_TRUE(store->publish().has_error()) << "a later sync that succeeds proves nothing";
  const std::string victim = first.error().tensor;
  ASSERT_TRUE(put(*store, victim, content(4096, 77)));
  const Result<void> second = store->publish();
  ASSERT_TRUE(second.has_error());
  EXPECT_THAT(second.error().message, HasSubstr("contents of 1 tensor ("));
  ASSERT_TRUE(put(*store, second.error().tensor, content(4096, 78)));
  EXPECT_TRUE(store->publish());
  store.reset();
  store = open();
  EXPECT_TRUE(holds(*store, victim, content(4096, 77)));
  EXPECT_TRUE(holds(*store, second.error().tensor, content(4096, 78)));
}

/// A content comes while the publish of the one before fails on its drive: once, then twice.
TEST_F(DurableStoreFaultTest, APublishSaysOkOnlyWhereTheNewestContentIsSafe) {
  for (const unsigned last : {3U, 4U}) {
    const std::vector<PathConfig> paths{path(directory_ / "store"), path(directory_ / "other"),
                                        path(directory_ / "third")};
    auto store = open(paths, system_);
    ASSERT_TRUE(put(*store, "a", content(4096, 1)));
    ASSERT_TRUE(store->publish());
    unsigned newest = 2;
    ASSERT_TRUE(put(*store, "a", content(4096, newest)));
    std::string failing;
    system_.set_watch([&](const std::string& call) {
      if (call.starts_with("sync ") && call.find("/tensors-") < call.size() && newest < last) {
        failing = call;
        ASSERT_TRUE(put(*store, "a", content(4096, ++newest)));
      }
    });
    system_.set_fault(
        [&](const std::string& call) { return call == failing ? (failing.clear(), EIO) : 0; });
    const Result<void> published = store->publish();
    system_.set_watch({});
    system_.set_fault({});
    ASSERT_EQ(newest, last);
    EXPECT_EQ(published.has_error(), last == 4);
    EXPECT_TRUE(published.has_value() || store->publish());
    store.reset();
    EXPECT_TRUE(holds(*open(paths), "a", content(4096, last)));
    for (const PathConfig& each : paths) {
      std::filesystem::remove_all(each.path);
    }
  }
}

TEST_F(DurableStoreFaultTest, AStoreOpensWhereAnUnsafeContentHasTheOldNameOfAnotherTensor) {
  auto store = open({}, system_);
  ASSERT_TRUE(put(*store, "a", content(4096, 1)));
  ASSERT_TRUE(put(*store, "c", content(4096, 2)));
  ASSERT_TRUE(store->publish());
  ASSERT_TRUE(put(*store, "c", content(4096, 3)));
  fail("sync", "tensors-", EIO);
  ASSERT_TRUE(store->publish().has_error());
  store->stage_name("a", "b");
  store->stage_name("c", "a");
  const Result<void> published = store->publish();
  ASSERT_TRUE(published.has_error());
  EXPECT_THAT(published.error().message, HasSubstr("contents of 1 tensor (a)"));
  store.reset();
  store = open();
  EXPECT_TRUE(holds(*store, "a", content(4096, 2)));
  EXPECT_TRUE(holds(*store, "b", content(4096, 1)));
  EXPECT_FALSE(store->find("c"));
}

/// After a failed sync the kernel may call pages clean that it has lost, and the next sync
/// succeeds.
TEST_F(DurableStoreFaultTest, WhatWasWrittenBeforeAFailedSyncAndIsStagedBehindItIsNotPublished) {
  auto store = open({}, system_);
  CatalogEntry early = write(*store, "early", content(4096, 1)).value();
  ASSERT_TRUE(put(*store, "a", content(4096, 2)));
  fail("sync", "tensors-", EIO);
  ASSERT_TRUE(store->publish().has_error());
  ASSERT_TRUE(store->stage(early.info, std::exchange(early.extent, nullptr)));
  ASSERT_TRUE(put(*store, "a", content(4096, 3)));
  const Result<void> published = store->publish();
  ASSERT_TRUE(published.has_error());
  EXPECT_EQ(published.error().system_errno(), EIO);
  EXPECT_EQ(published.error().tensor, "early");
  EXPECT_THAT(published.error().message, HasSubstr("contents of 1 tensor ("));
  ASSERT_TRUE(put(*store, "early", content(4096, 4)));
  EXPECT_TRUE(store->publish());
  store.reset();
  EXPECT_TRUE(holds(*open(), "early", content(4096, 4)));
}

TEST_F(DurableStoreFaultTest, AFullDriveStillTakesTheJournal) {
  auto store = open({}, system_);
  ASSERT_TRUE(put(*store, "a", content(kMiB, 1)));
  bool spare = true;  // what is kept for this case, and nothing else is free
  system_.set_fault([&spare](const std::string& call) {
    if (call.starts_with("truncate") && call.find("spare") != std::string::npos) {
      spare = false;
      return 0;
    }
    const bool grows = call.starts_with("write") || call.starts_with("reserve");
    return grows && spare ? ENOSPC : 0;
  });
  EXPECT_TRUE(store->publish());
  EXPECT_FALSE(spare);
  system_.set_fault({});
  store.reset();
  EXPECT_TRUE(holds(*open(), "a", content(kMiB, 1)));
}

TEST_F(DurableStoreFaultTest, AFullDriveGetsBackWhatOldRecordsTake) {
  auto store = open({}, system_);
  const auto put_and_publish = [&](unsigned round) {
    return put(*store, "a", content(10, round)).has_value() && store->publish().has_value();
  };
  for (unsigned round = 0; round < 100; ++round) {
    ASSERT_TRUE(put_and_publish(round));
  }
  const std::string manifest = directory_ / "store/manifest";
  const std::uint64_t grown = std::filesystem::file_size(manifest);
  bool spare = true;
  system_.set_fault([&spare](const std::string& call) {
    if (call.starts_with("truncate") && call.find("spare") != std::string::npos) {
      spare = false;
    }
    const bool grows = call.starts_with("write") && call.find("manifest") != std::string::npos;
    return grows && spare ? ENOSPC : 0;
  });
  ASSERT_TRUE(put_and_publish(100));
  EXPECT_FALSE(spare);
  EXPECT_LT(std::filesystem::file_size(manifest), grown / 4);
  system_.set_fault({});
  store.reset();
  EXPECT_TRUE(holds(*open(), "a", content(10, 100)));
}

TEST_F(DurableStoreFaultTest, WithoutRoomForTheJournalAContentIsRefusedAtOnce) {
  fail("reserve", "spare", ENOSPC, false);
  auto store = open({}, system_);
  const Result<void> refused = put(*store, "a", content(10, 1));
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().system_errno(), ENOSPC);
  EXPECT_FALSE(store->find("a"));
}

TEST_F(DurableStoreFaultTest, RecordsThatFillTheSpareArePublishedBeforeAContentIsRefused) {
  auto store = open({}, system_);
  const auto put_many = [&](unsigned from, unsigned to) {
    for (unsigned i = from; i < to; ++i) {
      ASSERT_TRUE(put(*store, std::string(4000, 'n') + std::to_string(i), content(10, i))) << i;
    }
  };
  put_many(0, 10);
  const std::uint64_t kept = std::filesystem::file_size(directory_ / "store/spare");
  fail("reserve", "spare", ENOSPC, false);
  put_many(10, 2 * static_cast<unsigned>(kept / 4000));
  EXPECT_GE(store->counters().publishes, 1U);
  EXPECT_EQ(std::filesystem::file_size(directory_ / "store/spare"), kept);
}

/// The machine stops at any call: what is found afterwards is the last state that was published, or
/// the one that was being published, whole, and the store goes on from there.
TEST_F(DurableStoreFaultTest, StoppedAtAnyCallLeavesTheOldOrTheNewContents) {
  const auto run = [&]() -> unsigned {  // returns how many rounds were published for certain
    unsigned published = 0;
    Opened store = try_open({path(directory_ / "store"), path(directory_ / "other")}, system_);
    if (store.has_error()) {
      return 0;
    }
    for (unsigned round = 1; round <= 3; ++round) {
      for (const std::string name : {"a", "b"}) {
        if (put(**store, name, content(5000, round)).has_error()) {
          return published;
        }
      }
      if (round == 3 ? (*store)->close().has_error() : (*store)->publish().has_error()) {
        return published;
      }
      published = round;
    }
    return published;
  };
  system_.set_fault({});
  ASSERT_EQ(run(), 3U);
  const std::size_t calls = system_.take_calls().size();
  ASSERT_GT(calls, 30U);
  for (std::size_t stop = 0; stop < calls; ++stop) {
    std::filesystem::remove_all(directory_ / "store");
    std::filesystem::remove_all(directory_ / "other");
    system_.stop_after(stop);
    const unsigned published = run();
    system_.set_fault({});
    auto store = open({path(directory_ / "store"), path(directory_ / "other")});
    unsigned found = 0;
    for (unsigned round = published; round <= std::min(published + 1, 3U); ++round) {
      if (round > 0 && holds(*store, "a", content(5000, round))) {
        EXPECT_TRUE(holds(*store, "b", content(5000, round))) << "one batch, stopped at " << stop;
        found = round;
      }
    }
    ASSERT_TRUE(found > 0 || (published == 0 && !store->find("a"))) << "stopped at " << stop;
    ASSERT_TRUE(put(*store, "a", content(6000, 9)));
    ASSERT_TRUE(store->close());
    store = open();
    ASSERT_TRUE(holds(*store, "a", content(6000, 9))) << "stopped at " << stop;
  }
}

}  // namespace
}  // namespace penstock
