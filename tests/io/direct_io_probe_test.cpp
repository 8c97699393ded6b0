#include "io/direct_io_probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "tests/io/temp_directory.h"

#ifdef STATX_DIOALIGN

namespace {

struct Alignment {
  std::uint32_t memory = 0;
  std::uint32_t offset = 0;
};
/// What the kernel says in place of the truth, while a test has one here.
const Alignment* pretended = nullptr;

}  // namespace

// Takes the place of the C library's: no drive here has blocks as large as some.
extern "C" int statx(int directory, const char* __restrict path, int flags, unsigned mask,
                     struct statx* __restrict facts) noexcept {
  const long result = ::syscall(SYS_statx, directory, path, flags, mask, facts);
  if (result == 0 && pretended != nullptr) {
    facts->stx_mask |= STATX_DIOALIGN;
    facts->stx_dio_mem_align = pretended->memory;
    facts->stx_dio_offset_align = pretended->offset;
  }
  return static_cast<int>(result);
}

namespace penstock {
namespace {

class DirectIoProbeTest : public testing::Test {
 protected:
  ~DirectIoProbeTest() override { pretended = nullptr; }

  Result<File> open_where(const Alignment& alignment) {
    pretended = &alignment;
    return File::create_scratch(directory_.path());
  }

  TempDirectory directory_;
};

TEST_F(DirectIoProbeTest, ADriveOfLargerBlocksThanOursIsBuffered) {
  for (const Alignment alignment : {Alignment{16384, 16384}, {512, 8192}, {8192, 4096}}) {
    const Result<File> file = open_where(alignment);
    ASSERT_TRUE(file);
    EXPECT_FALSE(file->direct().supported);
    EXPECT_EQ(file->direct().memory_alignment, 1U);
    EXPECT_EQ(file->direct().offset_alignment, 1U);
    const std::uint32_t needed = std::max(alignment.memory, alignment.offset);
    EXPECT_NE(file->direct().reason.find(" " + std::to_string(needed) + " bytes"),
              std::string::npos)
        << file->direct().reason;
    EXPECT_EQ(::fcntl(file->fd(), F_GETFL) & O_DIRECT, 0);
  }
}

TEST_F(DirectIoProbeTest, ADriveOfBlocksLikeOursIsDirect) {
  if (!File::create_scratch(directory_.path())->direct().supported) {
    GTEST_SKIP() << "no direct I/O in " << directory_.path();
  }
  const Alignment alignment{512, 4096};
  const Result<File> file = open_where(alignment);
  EXPECT_TRUE(file->direct().supported);
  EXPECT_EQ(file->direct().memory_alignment, 512U);
  EXPECT_EQ(file->direct().offset_alignment, 4096U);
}

}  // namespace
}  // namespace penstock

#endif
