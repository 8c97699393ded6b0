#include "swap/transfer/checksum.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/alloc/random_bytes.h"

namespace penstock {
namespace {

TEST(Checksum, OffLooksAtNothing) {
  EXPECT_EQ(checksum(IntegrityLevel::kOff, random_bytes(100, 7)), 0u);
}

TEST(Checksum, FullSeesEveryByte) {
  std::vector<std::byte> bytes = random_bytes(10000, 7);
  const std::uint64_t before = checksum(IntegrityLevel::kFull, bytes);
  for (std::size_t i = 0; i < bytes.size(); i += 97) {
    bytes[i] ^= std::byte{1};
    EXPECT_NE(checksum(IntegrityLevel::kFull, bytes), before) << i;
    bytes[i] ^= std::byte{1};
  }
  EXPECT_EQ(checksum(IntegrityLevel::kFull, bytes), before);
}

TEST(Checksum, SampledSeesEveryBlockThatIsNotTheOneWritten) {
  std::vector<std::byte> bytes = random_bytes(64 * 4096 + 100, 7);
  const std::uint64_t before = checksum(IntegrityLevel::kSampled, bytes);
  for (std::size_t page = 0; page < 64; ++page) {
    std::vector<std::byte> damaged = bytes;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(page * 4096), 4096, std::byte{0});
    EXPECT_NE(checksum(IntegrityLevel::kSampled, damaged), before) << page;
  }
  std::vector<std::byte> swapped = bytes;
  std::swap_ranges(swapped.begin(), swapped.begin() + 4096, swapped.begin() + 4096);
  EXPECT_NE(checksum(IntegrityLevel::kSampled, swapped), before);
}

TEST(Checksum, SampledSeesTheTailAndTheLength) {
  std::vector<std::byte> bytes = random_bytes(4096 + 17, 7);
  const std::uint64_t before = checksum(IntegrityLevel::kSampled, bytes);
  bytes.back() ^= std::byte{1};
  EXPECT_NE(checksum(IntegrityLevel::kSampled, bytes), before);
  bytes.back() ^= std::byte{1};
  bytes.pop_back();
  EXPECT_NE(checksum(IntegrityLevel::kSampled, bytes), before);
}

TEST(Checksum, SmallAndEmpty) {
  for (const IntegrityLevel level : {IntegrityLevel::kSampled, IntegrityLevel::kFull}) {
    EXPECT_EQ(checksum(level, {}), checksum(level, {}));
    EXPECT_NE(checksum(level, random_bytes(1, 7)), checksum(level, {}));
  }
}

TEST(ChecksumStream, PartsMakeTheSameAsTheWhole) {
  for (const std::size_t size : {0UL, 1UL, 4095UL, 4096UL, 4097UL, 100'000UL, 131'072UL}) {
    const std::vector<std::byte> bytes = random_bytes(size, 7);
    for (const IntegrityLevel level :
         {IntegrityLevel::kOff, IntegrityLevel::kSampled, IntegrityLevel::kFull}) {
      for (const std::size_t part : {4096UL, 12'288UL, 1'000'000UL}) {
        ChecksumStream stream(level, size);
        for (std::size_t at = 0; at < size; at += part) {
          stream.update(std::span(bytes).subspan(at, std::min(part, size - at)));
        }
        EXPECT_EQ(stream.finish(), checksum(level, bytes)) << size << ' ' << part;
      }
    }
  }
}

TEST(ChecksumStream, FullTakesPartsOfAnySize) {
  const std::vector<std::byte> bytes = random_bytes(50'000, 7);
  ChecksumStream stream(IntegrityLevel::kFull, bytes.size());
  for (std::size_t at = 0, step = 1; at < bytes.size(); at += step, step = step * 7 % 5003 + 1) {
    stream.update(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)));
  }
  EXPECT_EQ(stream.finish(), checksum(IntegrityLevel::kFull, bytes));
}

}  // namespace
}  // namespace penstock
