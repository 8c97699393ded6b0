#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/memory_source.h"

namespace penstock {

/// A source under test, and how to make one that can give at least 256 MiB. An error says why this
/// machine cannot have it.
struct SourceCase {
  std::string name;
  Result<std::shared_ptr<MemorySource>> (*make)();
};

inline std::ostream& operator<<(std::ostream& out, const SourceCase& source) {
  return out << source.name;
}

/// What alloc/memory_source.h promises of every source.
class MemorySourceContract : public testing::TestWithParam<SourceCase> {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<MemorySource>> source = GetParam().make();
    if (!source) {
      GTEST_SKIP() << source.error().message;
    }
    source_ = *std::move(source);
  }

  std::shared_ptr<MemorySource> source_;
};

TEST_P(MemorySourceContract, GivesAtLeastWhatIsAskedAlignedAndUsable) {
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4096}, std::uint64_t{4097}, kMiB,
        kHugePageBytes - 1, kHugePageBytes, kHugePageBytes + 1, 3 * kMiB, 5 * kMiB + 123}) {
    const Result<Memory> memory = source_->allocate(bytes);
    ASSERT_TRUE(memory) << bytes << ": " << memory.error().message;
    EXPECT_GE(memory->bytes(), bytes);
    EXPECT_LT(memory->bytes(), bytes + bytes / 8 + kBlockBytes) << "near-exact, not a power of two";
    EXPECT_TRUE(is_aligned(memory->data(), kBlockBytes));
    if (bytes >= kHugePageBytes) {
      EXPECT_TRUE(is_aligned(memory->data(), kHugePageBytes)) << bytes;
    }
    EXPECT_EQ(memory->span().size(), memory->bytes());
    std::memset(memory->data(), 0xA5, memory->bytes());
    EXPECT_EQ(memory->span().back(), std::byte{0xA5});
  }
}

TEST_P(MemorySourceContract, NothingIsAnErrorAndSoIsTooMuch) {
  const Result<Memory> nothing = source_->allocate(0);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Fault::kInvalidArgument);
  for (const std::uint64_t bytes : {std::uint64_t{1} << 50, std::uint64_t{1} << 58,
                                    ~std::uint64_t{0}, ~std::uint64_t{0} - 4095}) {
    const Result<Memory> too_much = source_->allocate(bytes);
    ASSERT_FALSE(too_much) << bytes;
    EXPECT_FALSE(too_much.error().message.empty());
  }
  EXPECT_TRUE(source_->allocate(kMiB)) << "a refusal must leave no trace";
}

TEST_P(MemorySourceContract, MemoryOutlivesTheOwnerOfItsSource) {
  Result<Memory> memory = source_->allocate(kMiB);
  ASSERT_TRUE(memory);
  source_.reset();
  std::memset(memory->data(), 1, memory->bytes());
}

TEST_P(MemorySourceContract, MovingMovesOwnership) {
  Result<Memory> first = source_->allocate(kMiB);
  Result<Memory> second = source_->allocate(2 * kMiB);
  ASSERT_TRUE(first && second);
  std::byte* const data = second->data();
  Memory target = std::move(*first);
  EXPECT_FALSE(*first);
  target = std::move(*second);  // gives the first back
  EXPECT_EQ(target.data(), data);
  target = Memory();
  EXPECT_FALSE(target);
}

TEST_P(MemorySourceContract, PiecesAreDisjointAndKeepTheirBytes) {
  std::mt19937 random(3);
  std::vector<Memory> held;
  for (int step = 0; step < 300; ++step) {
    if (held.size() == 24) {
      std::swap(held[random() % held.size()], held.back());
      held.pop_back();
    }
    Result<Memory> memory = source_->allocate(random() % (3 * kMiB) + 1);
    ASSERT_TRUE(memory) << memory.error().message;
    std::memcpy(memory->data(), &step, sizeof step);
    std::memcpy(memory->data() + memory->bytes() - sizeof step, &step, sizeof step);
    held.push_back(std::move(*memory));
    std::ranges::sort(held, {}, [](const Memory& piece) { return piece.data(); });
    for (std::size_t index = 1; index < held.size(); ++index) {
      ASSERT_LE(held[index - 1].data() + held[index - 1].bytes(), held[index].data());
    }
  }
  for (const Memory& piece : held) {
    EXPECT_EQ(std::memcmp(piece.data(), piece.data() + piece.bytes() - sizeof(int), sizeof(int)),
              0);
  }
}

TEST_P(MemorySourceContract, ManyThreadsMayUseIt) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<Memory> held;
      for (int step = 0; step < 150; ++step) {
        Result<Memory> memory = source_->allocate(random() % kMiB + 1);
        if (!memory) {
          ++failures;
          continue;
        }
        std::memset(memory->data(), static_cast<int>(seed), 64);
        held.push_back(std::move(*memory));
        if (held.size() > 8) {
          std::swap(held[random() % held.size()], held.back());
          failures += held.back().data()[0] == std::byte{static_cast<unsigned char>(seed)} ? 0 : 1;
          held.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(failures, 0);
}

}  // namespace penstock
