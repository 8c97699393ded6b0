#include "bench/workload/request_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "alloc/bytes.h"
#include "bench/workload/block_permutation.h"
#include "tests/bench/directions.h"

namespace penstock::bench {
namespace {

Job make_job(Direction direction, std::uint64_t block_bytes) {
  Job job;
  job.name = "x";
  job.direction = direction;
  job.read_blocks = {{block_bytes, 100}};
  job.write_blocks = {{block_bytes, 100}};
  return job;
}

std::vector<Request> all_of(const Job& job, const std::vector<FileRegion>& regions,
                            std::uint32_t thread = 0) {
  auto source = RequestSource::make(job, thread, regions).value();
  std::vector<Request> requests;
  while (const std::optional<Request> request = source->next()) {
    requests.push_back(*request);
  }
  return requests;
}

std::uint64_t bytes_of(const std::vector<Request>& requests) {
  std::uint64_t bytes = 0;
  for (const Request& request : requests) {
    bytes += request.place.bytes;
  }
  return bytes;
}

constexpr Direction kRandomRead{true, false, true};
constexpr Direction kRandomWrite{false, true, true};
constexpr Direction kMix{true, true, false};

TEST(BlockPermutationTest, EachNumberOnce) {
  for (const std::uint64_t count : {1U, 2U, 3U, 4U, 5U, 100U, 4096U, 4097U, 30000U}) {
    const BlockPermutation permutation(count, 42);
    std::set<std::uint64_t> seen;
    for (std::uint64_t place = 0; place < count; ++place) {
      seen.insert(permutation.at(place));
    }
    EXPECT_EQ(seen.size(), count);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(BlockPermutationTest, TheSeedDecides) {
  const BlockPermutation one(1000, 1);
  const BlockPermutation same(1000, 1);
  const BlockPermutation other(1000, 2);
  std::uint64_t agree = 0;
  std::uint64_t in_place = 0;
  for (std::uint64_t place = 0; place < 1000; ++place) {
    EXPECT_EQ(one.at(place), same.at(place));
    agree += one.at(place) == other.at(place) ? 1U : 0U;
    in_place += one.at(place) == place ? 1U : 0U;
  }
  EXPECT_LT(agree, 20U);
  EXPECT_LT(in_place, 20U);
}

TEST(RequestSourceTest, InOrderWholeBlocksOnly) {
  const std::vector<Request> requests = all_of(make_job(kRead, 300 * kKiB), {{0, 4 * kMiB}});
  ASSERT_EQ(requests.size(), 13U) << "as fio 3.33 does";
  for (std::size_t index = 0; index < requests.size(); ++index) {
    EXPECT_EQ(requests[index].place, (Place{index * 300 * kKiB, 300 * kKiB, 0}));
    EXPECT_EQ(requests[index].kind, IoKind::kRead);
  }
}

TEST(RequestSourceTest, IoSizeGoesRoundAndEndsWithAWholeBlock) {
  Job job = make_job(kWrite, kMiB);
  job.io_size = 5 * kMiB / 2;
  const std::vector<Request> requests = all_of(job, {{kMiB, 2 * kMiB}});
  ASSERT_EQ(requests.size(), 3U) << "as fio 3.33 does";
  EXPECT_EQ(requests[0].place, (Place{kMiB, kMiB, 0}));
  EXPECT_EQ(requests[1].place, (Place{2 * kMiB, kMiB, 0}));
  EXPECT_EQ(requests[2].place, (Place{kMiB, kMiB, 1})) << "the second pass";
}

TEST(RequestSourceTest, LoopsAreWholePasses) {
  Job job = make_job(kRead, 300 * kKiB);
  job.loops = 3;
  EXPECT_EQ(all_of(job, {{0, 4 * kMiB}}).size(), 39U);
}

TEST(RequestSourceTest, FilesTakeTurns) {
  const std::vector<Request> requests =
      all_of(make_job(kRead, 64 * kKiB), {{0, 1398101}, {0, 1398101}, {0, 1398101}});
  ASSERT_EQ(requests.size(), 63U) << "as fio 3.33 does with nrfiles=3, size=4m";
  EXPECT_EQ(requests[0].file, 0U);
  EXPECT_EQ(requests[1].file, 1U);
  EXPECT_EQ(requests[2].file, 2U);
  EXPECT_EQ(requests[3].file, 0U);
  EXPECT_EQ(requests[3].place.offset, 64 * kKiB);
}

TEST(RequestSourceTest, RandomWithoutRepeatsAndEachPassAnew) {
  Job job = make_job(kRandomRead, 64 * kKiB);
  job.loops = 2;
  const std::vector<Request> requests = all_of(job, {{kMiB, 8 * kMiB}});
  ASSERT_EQ(requests.size(), 256U);
  std::vector<std::uint64_t> first;
  std::vector<std::uint64_t> second;
  for (std::size_t index = 0; index < 256; ++index) {
    EXPECT_EQ(requests[index].place.pass, index / 128);
    (index < 128 ? first : second).push_back(requests[index].place.offset);
  }
  EXPECT_NE(first, second);
  for (std::vector<std::uint64_t>* pass : {&first, &second}) {
    EXPECT_FALSE(std::ranges::is_sorted(*pass));
    std::ranges::sort(*pass);
    for (std::size_t index = 0; index < pass->size(); ++index) {
      EXPECT_EQ((*pass)[index], kMiB + index * 64 * kKiB);
    }
  }
}

TEST(RequestSourceTest, SameSeedSameRequestsAndThreadsDiffer) {
  const Job job = make_job(kRandomRead, 4 * kKiB);
  const std::vector<FileRegion> regions{{0, kMiB}};
  const auto offsets = [&](const std::vector<Request>& requests) {
    std::vector<std::uint64_t> list;
    for (const Request& request : requests) {
      list.push_back(request.place.offset);
    }
    return list;
  };
  EXPECT_EQ(offsets(all_of(job, regions)), offsets(all_of(job, regions)));
  EXPECT_NE(offsets(all_of(job, regions)), offsets(all_of(job, regions, 1)));
  Job other = job;
  other.randseed = 1234;
  EXPECT_NE(offsets(all_of(job, regions)), offsets(all_of(other, regions)));
}

TEST(RequestSourceTest, TheMixIsExactInEveryHundred) {
  for (const std::uint32_t percent : {0U, 1U, 30U, 50U, 70U, 99U, 100U}) {
    Job job = make_job(kMix, 4 * kKiB);
    job.rwmixread = percent;
    const std::vector<Request> requests = all_of(job, {{0, 4000 * kKiB}});
    ASSERT_EQ(requests.size(), 1000U);
    for (std::size_t hundred = 0; hundred < 10; ++hundred) {
      const auto begin = requests.begin() + static_cast<std::ptrdiff_t>(100 * hundred);
      const auto reads = std::count_if(
          begin, begin + 100, [](const Request& request) { return request.kind == IoKind::kRead; });
      EXPECT_EQ(reads, percent);
    }
  }
}

TEST(RequestSourceTest, DirectionsOfAMixGoTheirOwnWays) {
  const std::vector<Request> requests = all_of(make_job(kMix, kMiB), {{0, 100 * kMiB}});
  ASSERT_EQ(requests.size(), 100U);
  std::map<IoKind, std::uint64_t> position;
  for (const Request& request : requests) {
    EXPECT_EQ(request.place.offset, position[request.kind]);
    position[request.kind] += kMiB;
  }
}

TEST(RequestSourceTest, SizesByTheirShares) {
  for (const Direction direction : {kWrite, kRandomWrite}) {
    Job job = make_job(direction, 0);
    job.write_blocks = {{16 * kKiB, 10}, {64 * kKiB, 60}, {128 * kKiB, 30}};
    job.io_size = 50 * kMiB;
    std::vector<Request> requests = all_of(job, {{0, 80 * kMiB}});
    ASSERT_GT(requests.size(), 600U);
    requests.resize(600);
    std::map<std::uint64_t, int> counts;
    for (const Request& request : requests) {
      ++counts[request.place.bytes];
      EXPECT_LE(request.place.offset + request.place.bytes, 80 * kMiB);
    }
    EXPECT_EQ(counts[16 * kKiB], 60);
    EXPECT_EQ(counts[64 * kKiB], 360);
    EXPECT_EQ(counts[128 * kKiB], 180);
  }
}

TEST(RequestSourceTest, MixedSizesFillTheFileToItsEnd) {
  Job job = make_job(kWrite, 0);
  job.write_blocks = {{64 * kKiB, 50}, {128 * kKiB, 50}};
  const std::vector<Request> requests = all_of(job, {{0, kMiB}});
  EXPECT_EQ(bytes_of(requests), kMiB) << "as fio 3.33 does";
  std::uint64_t position = 0;
  for (const Request& request : requests) {
    EXPECT_EQ(request.place.offset, position);
    position += request.place.bytes;
  }
}

TEST(RequestSourceTest, TimeBasedHasNoEnd) {
  Job job = make_job(kRead, 4 * kKiB);
  job.time_based = true;
  auto source = RequestSource::make(job, 0, std::vector<FileRegion>{{0, 8 * kKiB}}).value();
  EXPECT_EQ(source->total_bytes(), 0U);
  for (std::uint32_t index = 0; index < 1000; ++index) {
    EXPECT_EQ(source->next()->place, (Place{index % 2 * 4 * kKiB, 4 * kKiB, index / 2}));
  }
}

TEST(RequestSourceTest, AFileSmallerThanABlockIsRefused) {
  const auto source =
      RequestSource::make(make_job(kRead, kMiB), 0, std::vector<FileRegion>{{0, 512 * kKiB}});
  ASSERT_TRUE(source.has_error());
  EXPECT_THAT(source.error().message, testing::HasSubstr("raise `size` or lower `bs`"));
}

}  // namespace
}  // namespace penstock::bench
