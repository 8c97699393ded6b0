#include "bench/job/block_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

using Shares = std::vector<BlockShare>;
using testing::HasSubstr;

Job with_sizes(std::string_view text) {
  Job job;
  const Refusal refusal = read_block_sizes(text, job);
  EXPECT_FALSE(refusal.has_value()) << text << ": " << refusal.value_or("");
  return job;
}

Job with_split(std::string_view text) {
  Job job;
  const Refusal refusal = read_block_split(text, job);
  EXPECT_FALSE(refusal.has_value()) << text << ": " << refusal.value_or("");
  return job;
}

std::string split_problem(std::string_view text) {
  Job job;
  return read_block_split(text, job).value_or("taken");
}

TEST(BlockShareTest, OneSizeIsForAllDirections) {
  const Job job = with_sizes("64k");
  EXPECT_EQ(job.read_blocks, (Shares{{64 * kKiB, 100}}));
  EXPECT_EQ(job.write_blocks, job.read_blocks);
  EXPECT_EQ(write_block_sizes(job), "64k");
  EXPECT_EQ(write_block_split(job), std::nullopt);
}

TEST(BlockShareTest, ACommaDividesReadsWritesAndTrims) {
  EXPECT_EQ(write_block_sizes(with_sizes("4k,64k")), "4k,64k");
  EXPECT_EQ(write_block_sizes(with_sizes("4k,64k,1m")), "4k,64k") << "nothing is trimmed here";
  EXPECT_EQ(write_block_sizes(with_sizes(",64k")), ",64k");
  EXPECT_TRUE(with_sizes(",64k").read_blocks.empty());
  EXPECT_TRUE(with_sizes("4k,").write_blocks.empty());
  EXPECT_EQ(write_block_sizes(with_sizes(",8k,")), ",8k");
}

TEST(BlockShareTest, AnEmptyDirectionKeepsWhatItHas) {
  Job job = with_sizes("1m");
  EXPECT_FALSE(read_block_sizes(",16k", job).has_value());
  EXPECT_EQ(write_block_sizes(job), "1m,16k");
}

TEST(BlockShareTest, ASplitIsSharedAmongThoseWithoutAPercentage) {
  EXPECT_EQ(with_split("4k/10:64k/50:32k/").read_blocks,
            (Shares{{4 * kKiB, 10}, {64 * kKiB, 50}, {32 * kKiB, 40}}));
  EXPECT_EQ(with_split("4k/:8k/:16k/").read_blocks,
            (Shares{{4 * kKiB, 34}, {8 * kKiB, 33}, {16 * kKiB, 33}}));
  EXPECT_EQ(with_split("4k:8k/25").read_blocks, (Shares{{4 * kKiB, 75}, {8 * kKiB, 25}}));
  EXPECT_EQ(with_split("4k/10:64k/50").read_blocks, (Shares{{4 * kKiB, 10}, {64 * kKiB, 90}}))
      << "the last gets what is missing, as in fio";
  EXPECT_EQ(with_split("4k/100:8k/").read_blocks, (Shares{{4 * kKiB, 100}, {8 * kKiB, 0}}));
}

TEST(BlockShareTest, ASplitHasDirectionsToo) {
  const Job both = with_split("4k/50:8k/50");
  EXPECT_EQ(both.read_blocks, both.write_blocks);
  const Job two = with_split("4k/50:8k/50,1m/100");
  EXPECT_EQ(two.write_blocks, (Shares{{kMiB, 100}}));
  EXPECT_EQ(write_block_split(two), "4k/50:8k/50,1m/100");
  EXPECT_EQ(write_block_sizes(two), std::nullopt);
  EXPECT_EQ(write_block_split(with_split(",4k/50:8k/50")), ",4k/50:8k/50");
  EXPECT_EQ(write_block_sizes(with_split("4k/100")), "4k") << "one size is no mix";
}

TEST(BlockShareTest, WrongSplitsSayWhy) {
  EXPECT_THAT(split_problem("4k/60:64k/50"), HasSubstr("make 110 together"));
  EXPECT_THAT(split_problem("4k/101"), HasSubstr("whole numbers from 0 to 100"));
  EXPECT_THAT(split_problem("4k/33.3:8k/"), HasSubstr("whole numbers from 0 to 100"));
  EXPECT_THAT(split_problem("0/50:4k/50"), HasSubstr("1 byte to 1g"));
  EXPECT_THAT(split_problem("4k/50::8k/50"), HasSubstr("a whole number is allowed"));
  EXPECT_THAT(split_problem("2g"), HasSubstr("1 byte to 1g"));
  EXPECT_THAT(split_problem("4k,4k,4k,4k"), HasSubstr("at most three"));
  EXPECT_THAT(split_problem(","), HasSubstr("a size such as 4k"));
  EXPECT_THAT(split_problem(""), HasSubstr("a size such as 4k"));
  std::string many = "4k";
  for (int i = 0; i < 64; ++i) {
    many += ":4k";
  }
  EXPECT_THAT(split_problem(many), HasSubstr("at most 64 sizes"));
}

}  // namespace
}  // namespace penstock::bench
