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
  TensorFeed feed(mix, 1, kGiB);
  EXPECT_THAT(offsets(feed, 4), ElementsAre(0, 8 * kKiB, 12 * kKiB, 0));
}

TEST(TensorFeedTest, LargeTensorsAreCutIntoRequests) {
  const DriveMix mix = mix_of({20 * kKiB});
  TensorFeed feed(mix, 1, 8 * kKiB);
  EXPECT_EQ(feed.next()->bytes, 8 * kKiB);
  EXPECT_EQ(feed.next()->bytes, 8 * kKiB);
  EXPECT_EQ(feed.next()->bytes, 4 * kKiB);
}

TEST(TensorFeedTest, BytesReadKeepTheirShare) {
  const DriveMix mix = mix_of({4 * kKiB, 400 * kKiB, 12 * kKiB, 40 * kKiB, 64 * kKiB});
  for (const double share : {0.0, 0.25, 0.5, 2.0 / 3, 1.0}) {
    TensorFeed feed(mix, share, kGiB);
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

}  // namespace
}  // namespace penstock::bench
