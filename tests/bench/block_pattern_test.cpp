#include "bench/workload/block_pattern.h"

#include <gtest/gtest.h>

#include <vector>

#include "alloc/bytes.h"
#include "bench/workload/file_set.h"
#include "bench/workload/written_map.h"

namespace penstock::bench {
namespace {

std::vector<std::byte> filled(const BlockPattern& pattern, std::uint32_t file, std::uint64_t offset,
                              std::size_t bytes, std::uint32_t pass) {
  std::vector<std::byte> block(bytes);
  pattern.fill(block, file, offset, pass);
  return block;
}

TEST(BlockPatternTest, EveryByteThatChangesIsFound) {
  const BlockPattern pattern(3);
  std::vector<std::byte> block = filled(pattern, 0, 4096, 1000, 0);
  EXPECT_FALSE(pattern.first_difference(block, 0, 4096, 0));
  for (std::size_t at = 0; at < block.size(); ++at) {
    block[at] ^= std::byte{1};
    EXPECT_EQ(pattern.first_difference(block, 0, 4096, 0), 4096 + at);
    block[at] ^= std::byte{1};
  }
}

TEST(BlockPatternTest, AnyPartCanBeCheckedByItself) {
  const BlockPattern pattern(3);
  const std::vector<std::byte> block = filled(pattern, 2, 123, 500, 7);
  for (std::size_t first = 0; first < 20; ++first) {
    for (std::size_t bytes = 1; bytes < 30; ++bytes) {
      const auto part = std::span(block).subspan(first, bytes);
      EXPECT_FALSE(pattern.first_difference(part, 2, 123 + first, 7));
    }
  }
}

TEST(BlockPatternTest, SeedFilePlaceAndPassAllCount) {
  const BlockPattern pattern(3);
  const std::vector<std::byte> block = filled(pattern, 1, 4096, 4096, 1);
  EXPECT_TRUE(pattern.first_difference(block, 0, 4096, 1)) << "another file's";
  EXPECT_TRUE(pattern.first_difference(block, 1, 0, 1)) << "another place's";
  EXPECT_TRUE(pattern.first_difference(block, 1, 4096, 0)) << "the pass before: a lost write";
  EXPECT_TRUE(BlockPattern(4).first_difference(block, 1, 4096, 1)) << "another seed's";
}

TEST(WrittenMapTest, ReadsBackWhatWasWrittenAndInWhichPass) {
  Job job;
  job.direction = {false, true, false};
  job.write_blocks = {{8192, 50}, {4096, 50}};
  const std::vector<FileRegion> regions{{4096, 40960}, {0, 16384}};
  WrittenMap map(job, regions);
  map.note({IoKind::kWrite, 0, {4096, 8192, 0}});
  map.note({IoKind::kWrite, 0, {12288, 8192, 0}});
  map.note({IoKind::kWrite, 0, {8192, 4096, 1}});
  map.note({IoKind::kWrite, 1, {8192, 8192, 0}});
  EXPECT_EQ(map.written_bytes(), 24576U);
  WrittenMap::Feed feed(map);
  const std::vector<std::pair<std::uint32_t, Place>> expected = {
      {0, {4096, 4096, 0}}, {0, {8192, 4096, 1}}, {0, {12288, 8192, 0}}, {1, {8192, 8192, 0}}};
  for (const auto& [file, place] : expected) {
    const std::optional<Request> request = feed.next();
    ASSERT_TRUE(request);
    EXPECT_EQ(request->kind, IoKind::kRead);
    EXPECT_EQ(request->file, file);
    EXPECT_EQ(request->place, place);
  }
  EXPECT_FALSE(feed.next());
}

TEST(FilePathsTest, AsFioNamesThem) {
  Job job;
  job.name = "a/b";
  job.directory = "/one:/two\\:x";
  job.nrfiles = 2;
  EXPECT_EQ(file_paths(job, 0), (std::vector<std::string>{"/one/a_b.0.0", "/one/a_b.0.1"}));
  EXPECT_EQ(file_paths(job, 3), (std::vector<std::string>{"/two:x/a_b.3.0", "/two:x/a_b.3.1"}));
  job.filenames = {"named", "/absolute"};
  EXPECT_EQ(file_paths(job, 0), (std::vector<std::string>{"/one/named", "/absolute"}));
}

}  // namespace
}  // namespace penstock::bench
