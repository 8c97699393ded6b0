#include "alloc/page_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "alloc/bytes.h"

namespace penstock {
namespace {

TEST(PageSource, MapsExactlyWhatIsAskedInPages) {
  for (const HugePages huge_pages : {HugePages::kTransparent, HugePages::kReserved}) {
    const auto source = PageSource::make({.huge_pages = huge_pages});
    EXPECT_EQ(source->allocate(1)->bytes(), kBlockBytes);
    EXPECT_EQ(source->allocate(9 * kMiB + 5)->bytes(), 9 * kMiB + kBlockBytes);
    EXPECT_EQ(source->allocate(kGiB + kMiB)->bytes(), kGiB + kMiB) << "no power of two";
  }
}

TEST(PageSource, GivesZeroes) {
  const Result<Memory> memory = PageSource::make()->allocate(3 * kMiB);
  ASSERT_TRUE(memory);
  EXPECT_TRUE(std::ranges::all_of(memory->span(), [](std::byte b) { return b == std::byte{0}; }));
}

std::uint64_t free_reserved_pages() {
  std::ifstream meminfo("/proc/meminfo");
  std::uint64_t free = 0;
  std::uint64_t promised = 0;
  for (std::string key, rest; meminfo >> key; std::getline(meminfo, rest)) {
    if (key == "HugePages_Free:") {
      meminfo >> free;
    } else if (key == "HugePages_Rsvd:") {
      meminfo >> promised;
    }
  }
  return free - promised;
}

// Bytes of a page in the mapping that begins at `data`.
std::uint64_t kernel_page_bytes(const std::byte* data) {
  std::ifstream maps("/proc/self/smaps");
  const std::string begin = fmt::format("{:x}-", reinterpret_cast<std::uintptr_t>(data));
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    here = here || line.starts_with(begin);
    if (here && line.starts_with("KernelPageSize:")) {
      return std::stoull(line.substr(line.find(':') + 1)) * kKiB;
    }
  }
  return 0;
}

TEST(PageSource, PagesThatCannotBeMovedAreAnError) {
  const auto source = PageSource::make();
  const std::uint64_t leaked = PageSource::leaked_bytes();
  std::vector<Memory> pieces;
  for (int i = 0; i < 2; ++i) {
    Result<Memory> piece = source->allocate(2 * kHugePageBytes);
    ASSERT_TRUE(piece) << piece.error().message;
    pieces.push_back(std::move(*piece));
  }
  // Nothing lies at the second half of the first piece any more.
  ASSERT_EQ(::munmap(pieces[0].data() + kHugePageBytes, kHugePageBytes), 0);
  const Result<Memory> joined = source->join(std::move(pieces), 6 * kHugePageBytes);
  ASSERT_FALSE(joined);
  EXPECT_NE(joined.error().message.find("cannot move pages of memory"), std::string::npos);
  EXPECT_EQ(PageSource::leaked_bytes(), leaked);
}

TEST(PageSource, TakesReservedHugePagesForWhatIsWholeOnes) {
  if (free_reserved_pages() < 8) {
    GTEST_SKIP() << "fewer than 8 huge pages are reserved and free (sysctl vm.nr_hugepages)";
  }
  const auto source = PageSource::make({.huge_pages = HugePages::kReserved});
  const Result<Memory> whole = source->allocate(4 * kMiB);
  ASSERT_TRUE(whole);
  if (!source->refusals().huge_pages.empty()) {
    GTEST_SKIP() << source->refusals().huge_pages;
  }
  EXPECT_EQ(kernel_page_bytes(whole->data()), kHugePageBytes);
  const Result<Memory> odd = source->allocate(4 * kMiB + 1);
  EXPECT_EQ(kernel_page_bytes(odd->data()), kBlockBytes) << "rounding up would waste memory";
  EXPECT_EQ(source->refusals().huge_pages, "");
}

TEST(PageSource, DoesWithoutReservedHugePagesAndKeepsTheReason) {
  if (free_reserved_pages() != 0) {
    GTEST_SKIP() << "huge pages are reserved here";
  }
  const auto source = PageSource::make({.huge_pages = HugePages::kReserved});
  const Result<Memory> odd = source->allocate(4 * kMiB + 1);
  EXPECT_EQ(source->refusals().huge_pages, "") << "none was asked for";
  const Result<Memory> whole = source->allocate(4 * kMiB);
  ASSERT_TRUE(whole) << "the kernel's other pages do";
  EXPECT_TRUE(is_aligned(whole->data(), kHugePageBytes));
  EXPECT_NE(source->refusals().huge_pages.find("vm.nr_hugepages"), std::string::npos)
      << source->refusals().huge_pages;
}

}  // namespace
}  // namespace penstock
