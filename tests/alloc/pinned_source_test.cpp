#include "alloc/pinned_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "alloc/bytes.h"
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

TEST(PinnedSource, RefusalOfTheHookIsAnErrorAndGivesBack) {
  const auto source = PinnedSource::make(
      PageSource::make(), {.pin = [](std::byte*, std::uint64_t) { return ENOMEM; },
                           .unpin = [](std::byte*, std::uint64_t) { FAIL() << "was not pinned"; }});
  const Result<Memory> memory = source->allocate(8 * kMiB);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().system_errno(), ENOMEM);
  EXPECT_NE(memory.error().message.find("8.0 MiB"), std::string::npos) << memory.error().message;
  EXPECT_NE(memory.error().message.find("ulimit -l"), std::string::npos);
}

TEST(PinnedSource, HooksSeeWhatIsThereBeforeItGoes) {
  std::vector<std::string> calls;
  const auto source = PinnedSource::make(PageSource::make(),
                                         {.pin =
                                              [&](std::byte* data, std::uint64_t bytes) {
                                                calls.push_back("pin " + std::to_string(bytes));
                                                data[0] = std::byte{1};
                                                return 0;
                                              },
                                          .unpin =
                                              [&](std::byte* data, std::uint64_t bytes) {
                                                calls.push_back("unpin " + std::to_string(bytes));
                                                data[0] = std::byte{2};
                                              }});
  {
    const Result<Memory> memory = source->allocate(100);
  }
  EXPECT_EQ(calls, (std::vector<std::string>{"pin 4096", "unpin 4096"}));
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
  recycling->set_retained_limit_bytes(4 * kMiB);
  const auto source =
      PinnedSource::make(recycling, {.pin = [](std::byte*, std::uint64_t) { return 0; },
                                     .unpin = [](std::byte*, std::uint64_t) {}});
  {
    const Result<Memory> memory = source->allocate(2 * kMiB);
    EXPECT_TRUE(is_left_out_of_forks(memory->data()));
  }
  EXPECT_FALSE(is_left_out_of_forks(recycling->allocate(2 * kMiB)->data())) << "it is unpinned now";
}

}  // namespace
}  // namespace penstock
