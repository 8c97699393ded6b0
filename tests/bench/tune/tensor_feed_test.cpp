#include "bench/tune/tensor_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "alloc/bytes.h"

namespace penstock::bench {
namespace {

using testing::ElementsAre;

DriveMix mix_of(std::vector<std::uint64_t> tensors) {
  return {std::move(tensors), 1, 1};
}

std::vector<std::uint64_t> offsets(TensorFeed& feed, std::size_t count) {
  std::vector<std::uint64_t> found;
  for (std::size_t i = 0; i < count; ++i) {
    found.push_back(feed.next()->offset);
  }
  return found;
}

TEST(TensorFeedTest, TensorsLieBehindEachOtherAndComeAgain) {
  const DriveMix mix = mix_of({8 * kKiB, 4 * kKiB, 16 * kKiB});
  TensorFeed feed(mix, 1, {});
  EXPECT_THAT(offsets(feed, 4), ElementsAre(0, 8 * kKiB, 12 * kKiB, 0));
}

TEST(TensorFeedTest, PartsCoverEachTensorOnce) {
  const DriveMix mix = mix_of({20 * kKiB, 4 * kKiB});
  std::uint64_t bytes = 0;
  for (std::uint32_t part = 0; part < 3; ++part) {
    TensorFeed feed(mix, 1, {part, 3});
    const Request request = *feed.next();
    bytes += request.bytes;
    EXPECT_EQ(request.offset, part * 8 * kKiB);
  }
  EXPECT_EQ(bytes, 20 * kKiB);
}

TEST(TensorFeedTest, AThreadWithoutAPartGoesOnWithTheNextTensor) {
  const DriveMix mix = mix_of({4 * kKiB, 8 * kKiB});
  TensorFeed feed(mix, 1, {1, 2});
  EXPECT_THAT(offsets(feed, 2), ElementsAre(8 * kKiB, 8 * kKiB));
}

TEST(TensorFeedTest, LargeTensorsAreCutIntoRequests) {
  const DriveMix mix = mix_of({20 * kKiB});
  TensorFeed feed(mix, 1, {0, 1, 8 * kKiB});
  EXPECT_EQ(feed.next()->bytes, 8 * kKiB);
  EXPECT_EQ(feed.next()->bytes, 8 * kKiB);
  EXPECT_EQ(feed.next()->bytes, 4 * kKiB);
}

TEST(TensorFeedTest, BytesReadKeepTheirShare) {
  const DriveMix mix = mix_of({4 * kKiB, 400 * kKiB, 12 * kKiB, 40 * kKiB, 64 * kKiB});
  for (const double share : {0.0, 0.25, 0.5, 2.0 / 3, 1.0}) {
    TensorFeed feed(mix, share, {});
    double read = 0;
    double all = 0;
    for (int i = 0; i < 2000; ++i) {
      const Request request = *feed.next();
      const auto bytes = static_cast<double>(request.bytes);
      read += request.kind == IoKind::kRead ? bytes : 0;
      all += bytes;
    }
    EXPECT_NEAR(read / all, share, 0.01) << share;
  }
}

TEST(TensorFeedTest, AllThreadsOfATrialDoTheSameWithATensor) {
  const DriveMix mix = mix_of({8 * kKiB, 16 * kKiB, 32 * kKiB});
  TensorFeed first(mix, 0.6, {0, 2});
  TensorFeed second(mix, 0.6, {1, 2});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(first.next()->kind, second.next()->kind) << i;
  }
}

}  // namespace
}  // namespace penstock::bench
