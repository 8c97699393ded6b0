#include "alloc/pinned_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "alloc/limiting_source.h"
#include "alloc/page_source.h"
#include "alloc/recycling_source.h"

namespace penstock {
namespace {

// A number of /proc/self/status in bytes.
std::uint64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) {
      return std::stoull(line.substr(key.size() + 1)) * kKiB;
    }
  }
  return 0;
}

TEST(PinnedSource, LocksAndUnlocksExactlyItsBytes) {
  const auto source = PinnedSource::make(PageSource::make());
  const std::uint64_t before = status_bytes("VmLck");
  {
    const Result<Memory> memory = source->allocate(kMiB + 1);
    if (!memory) {
      GTEST_SKIP() << memory.error().message;
    }
    const std::uint64_t locked = status_bytes("VmLck");
    if (locked == before) {
      GTEST_SKIP() << "mlock has no effect here: address and thread sanitizers take it away";
    }
    EXPECT_EQ(locked - before, kMiB + kBlockBytes);
  }
  EXPECT_EQ(status_bytes("VmLck"), before);
}

// Gives what a hook did to `calls`, as `NAME+BYTES` and `NAME-BYTES`, and touches the memory.
PinHook recorded(std::string name, std::vector<std::string>& calls) {
  return {.pin = [name, &calls](std::span<std::byte> memory) -> Result<void> {
            calls.push_back(fmt::format("{}+{}", name, memory.size()));
            memory.front() = std::byte{1};
            return {};
          },
          .unpin =
              [name, &calls](std::span<std::byte> memory) {
                calls.push_back(fmt::format("{}-{}", name, memory.size()));
                memory.front() = std::byte{2};
              }};
}

PinHook refusing(int error) {
  return {.pin = [error](std::span<std::byte>) -> Result<void> {
            return system_error(error, "the device says no");
          },
          .unpin = [](std::span<std::byte>) { FAIL() << "was not pinned"; }};
}

TEST(PinnedSource, RefusalOfTheHookIsAnErrorAndGivesBack) {
  const auto upstream = LimitingSource::make(PageSource::make(), 8 * kMiB, "b");
  const auto source = PinnedSource::make(upstream, {refusing(ENOMEM)});
  const Result<Memory> memory = source->allocate(8 * kMiB);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().system_errno(), ENOMEM);
  EXPECT_NE(memory.error().message.find("8.0 MiB"), std::string::npos) << memory.error().message;
  EXPECT_NE(memory.error().message.find("the device says no"), std::string::npos);
  EXPECT_NE(memory.error().message.find("ulimit -l"), std::string::npos);
  EXPECT_EQ(upstream->held_bytes(), 0U);
}

TEST(PinnedSource, TheLimitOfLockedMemoryIsNamedOnlyWhereItMayBeTheReason) {
  const auto source = PinnedSource::make(PageSource::make(), {refusing(ENODEV)});
  const Result<Memory> memory = source->allocate(kMiB);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().system_errno(), ENODEV);
  EXPECT_EQ(memory.error().message.find("ulimit"), std::string::npos) << memory.error().message;
}

TEST(PinnedSource, HooksSeeWhatIsThereBeforeItGoes) {
  std::vector<std::string> calls;
  const auto source = PinnedSource::make(PageSource::make(), {recorded("ring", calls)});
  {
    const Result<Memory> memory = source->allocate(100);
  }
  EXPECT_EQ(calls, (std::vector<std::string>{"ring+4096", "ring-4096"}));
}

TEST(PinnedSource, SeveralHooksPinInTheirOrderAndUnpinInTheOpposite) {
  std::vector<std::string> calls;
  const auto source = PinnedSource::make(
      PageSource::make(),
      {recorded("lock", calls), recorded("ring", calls), recorded("gpu", calls)});
  {
    const Result<Memory> memory = source->allocate(8192);
    EXPECT_EQ(calls, (std::vector<std::string>{"lock+8192", "ring+8192", "gpu+8192"}));
    calls.clear();
  }
  EXPECT_EQ(calls, (std::vector<std::string>{"gpu-8192", "ring-8192", "lock-8192"}));
}

TEST(PinnedSource, ARefusalUndoesWhatTheHooksBeforeItDid) {
  std::vector<std::string> calls;
  const auto upstream = LimitingSource::make(PageSource::make(), kMiB, "b");
  const auto source =
      PinnedSource::make(upstream, {recorded("lock", calls), recorded("ring", calls),
                                    refusing(ENODEV), recorded("never", calls)});
  EXPECT_FALSE(source->allocate(kMiB));
  EXPECT_EQ(calls, (std::vector<std::string>{"lock+1048576", "ring+1048576", "ring-1048576",
                                             "lock-1048576"}));
  EXPECT_EQ(upstream->held_bytes(), 0U) << "nothing is mapped";
}

TEST(PinnedSource, AnArenaIsPinnedOnceForAllItsSlots) {
  std::vector<std::string> calls;
  {
    BufferPoolOptions options;
    options.pinned =
        PinnedSource::make(PageSource::make(), {recorded("ring", calls), recorded("gpu", calls)});
    BufferPool pool(std::move(options));
    ASSERT_TRUE(pool.shape(std::vector<ClassPlan>{{kMiB, 8}}));
    for (int round = 0; round < 3; ++round) {
      std::vector<Buffer> buffers;
      for (int slot = 0; slot < 8; ++slot) {
        buffers.push_back(*pool.acquire(kMiB));
      }
    }
  }
  EXPECT_EQ(calls, (std::vector<std::string>{"ring+8388608", "gpu+8388608", "gpu-8388608",
                                             "ring-8388608"}));
}

// Whether the mapping that begins at `data` is kept out of forked children.
bool is_left_out_of_forks(const std::byte* data) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(data));
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    here = here || line.starts_with(begin);
    if (here && line.starts_with("VmFlags:")) {
      return line.find(" dc") != std::string::npos;
    }
  }
  ADD_FAILURE() << "no mapping begins at " << begin;
  return false;
}

TEST(PinnedSource, ForkedChildrenNeedNoCopy) {
  const auto recycling = RecyclingSource::make(PageSource::make());
  recycling->set_limits({.retained_bytes = 4 * kMiB});
  const auto source = PinnedSource::make(recycling, {});
  {
    const Result<Memory> memory = source->allocate(2 * kMiB);
    EXPECT_TRUE(is_left_out_of_forks(memory->data()));
  }
  EXPECT_FALSE(is_left_out_of_forks(recycling->allocate(2 * kMiB)->data())) << "it is unpinned now";
}

}  // namespace
}  // namespace penstock
