#include "io/null_engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/io/temp_directory.h"
#include "tests/io/test_op.h"

namespace penstock {
namespace {

TEST(NullEngine, CompletesEverythingAndTouchesNothing) {
  const TempDirectory directory;
  const File file = std::move(File::create_scratch(directory.path())).value();
  const auto engine = std::move(make_null_engine({64 * 1024, 4})).value();
  const Memory memory = pages(kMiB);
  std::ranges::fill(memory.span(), std::byte{0x5a});
  TestOp write(IoKind::kWrite, file, memory.span(), 0);
  TestOp read(IoKind::kRead, file, memory.span(), 0);
  engine->submit(write);
  engine->submit(read);
  run_until_idle(*engine);
  EXPECT_EQ(write.error, 0);
  EXPECT_EQ(read.error, 0);
  EXPECT_EQ(*file.size_bytes(), 0U) << "nothing was written";
  EXPECT_TRUE(std::ranges::all_of(memory.span(), [](std::byte b) { return b == std::byte{0x5a}; }));
  EXPECT_EQ(engine->stats().requests, 2 * kMiB / (64 * kKiB));
  EXPECT_EQ(engine->stats().read_bytes, kMiB) << "as if it had been moved";
}

}  // namespace
}  // namespace penstock
