#include <gtest/gtest.h>

#include <cerrno>
#include <future>

#include "alloc/page_source.h"
#include "tests/alloc/counting_source.h"
#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

class SwapEngineMemoryTest : public EngineFixture {};

TEST_F(SwapEngineMemoryTest, ResidentsNeverTouchTheDrive) {
  open(8 * kMiB, 64 * kMiB);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 8; ++i) {
    tensors.push_back(declare(numbered(i), 4 * kMiB));
    commit(tensors.back(), content(4 * kMiB, i));
  }
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 8; ++i) {
      expect_content(tensors[i], content(4 * kMiB, i));
      commit(tensors[i], content(4 * kMiB, i));
    }
  }
  const SwapStats stats = engine_->stats();
  EXPECT_EQ(stats.io.read_bytes, 0u);
  EXPECT_EQ(stats.io.write_bytes, 0u);
  EXPECT_EQ(stats.resident_bytes, 32 * kMiB);
  EXPECT_EQ(stats.pool.overflow_bytes_max, 0u);
}

TEST_F(SwapEngineMemoryTest, APlanBeyondTheMachinesMemoryIsWarnedOfOnce) {
  constexpr std::uint64_t kPebibyte = std::uint64_t{1} << 50;
  open(8 * kMiB, kPebibyte);
  declare("fits", 4 * kMiB);
  ASSERT_TRUE(engine_->plan().has_value());
  EXPECT_TRUE(warnings_.empty()) << warnings_[0];
  declare("does not", kPebibyte / 2);
  ASSERT_TRUE(engine_->plan().has_value());
  ASSERT_TRUE(engine_->plan().has_value());
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_TRUE(warnings_[0].starts_with("[beyond-memory] 512.0 TiB of tensors are to stay in RAM"))
      << warnings_[0];
}

// Fresh pages cost as much CPU as the reads themselves: what one lease gives back, the next read
// takes.
TEST_F(SwapEngineMemoryTest, PassesReadAheadIntoPagesThatLeasesGaveBack) {
  const auto pages = std::make_shared<CountingSource>(PageSource::make());
  pageable_ = pages;
  open(8 * kMiB, 0);
  constexpr std::uint64_t kLarge = 24 * kMiB;
  constexpr std::uint64_t kSmall = 6 * kMiB + 1;
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 12; ++i) {
    contents.push_back(content(i == 0 ? kLarge : kSmall, i));
    tensors.push_back(declare(numbered(i), contents.back().size()));
    put(tensors.back(), contents.back());
  }
  const auto pass = [&] {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      expect_content(tensors[i], contents[i]);
    }
  };
  pass();
  pass();
  const std::size_t allocations = pages->allocations();
  const std::uint64_t misses = engine_->stats().misses;
  constexpr std::uint64_t kPasses = 5;
  for (std::uint64_t i = 0; i < kPasses; ++i) {
    pass();
  }
  EXPECT_EQ(pages->allocations(), allocations);
  EXPECT_LE(engine_->stats().misses - misses, 3 * kPasses)
      << "all but the large one are read ahead";
  std::uint64_t beside = 0;  // 0, but where a read ended while a lease's memory was on its way back
  {
    const Lease large = engine_->get(tensors[0]).lease().value();
    beside = engine_->stats().lookahead_bytes;
    EXPECT_LE(beside, kSmall) << "callers hold all that they ever held";
  }
  EXPECT_GE(engine_->stats().lookahead_bytes, beside + kSmall) << "the end of a lease reads ahead";
}

// Only contents that are made in a slot of their own have reads ahead leave room for them.
TEST_F(SwapEngineMemoryTest, ContentsThatTakeNoSlotLetReadsGoAhead) {
  open(16 * kMiB, 0);
  constexpr std::uint64_t kSmall = 3 * kMiB;
  const std::vector<std::byte> large = content(24 * kMiB, 9);
  const TensorId written = declare("written", large.size());
  std::vector<TensorId> read;
  for (unsigned i = 0; i < 4; ++i) {
    read.push_back(declare(numbered(i), kSmall));
    put(read.back(), content(kSmall, i));
  }
  for (int pass = 0; pass < 4; ++pass) {
    for (unsigned i = 0; i < read.size(); ++i) {
      expect_content(read[i], content(kSmall, i));
      if (pass == 3) {
        ASSERT_TRUE(eventually([&] { return engine_->stats().lookahead_bytes >= 2 * kSmall; }))
            << "before the put";
      }
      put(written, large);
    }
  }
}

// The thread that ends a read holds its memory no longer than the record does: a get() right behind
// the lease needs it.
TEST_F(SwapEngineMemoryTest, TheLastLeaseGivesTheMemoryOfAReadBack) {
  open(8 * kMiB, 0);
  const TensorId large = declare("large", 24 * kMiB);
  put(large, content(24 * kMiB, 1));
  std::promise<std::uint64_t> kept_bytes;
  engine_->get(large).then([&](const Ticket& read) {
    const std::uint64_t lent_bytes = read.lease().value().bytes();
    EXPECT_EQ(lent_bytes, 24 * kMiB);
    kept_bytes.set_value(engine_->stats().pool.overflow_bytes);
  });
  EXPECT_EQ(kept_bytes.get_future().get(), 0u);
}

TEST_F(SwapEngineMemoryTest, ResidentsStayWithinTheirBudget) {
  open(8 * kMiB, 10 * kMiB);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 8; ++i) {
    tensors.push_back(declare(numbered(i), 4 * kMiB));
    put(tensors.back(), content(4 * kMiB, i));
  }
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 8; ++i) {
      expect_content(tensors[i], content(4 * kMiB, i));
    }
  }
  EXPECT_EQ(engine_->stats().resident_bytes_max, 8 * kMiB);
  EXPECT_GT(engine_->stats().io.read_bytes, 0u);
}

TEST_F(SwapEngineMemoryTest, ARuleTakesTheRoomOfWhatCameEarlier) {
  EngineConfig config;
  TensorRule rule;
  rule.match = "*embed*";
  rule.place = Place::kRam;
  rule.text = "*embed*";
  config.tensors = {rule};
  open(16 * kMiB, 8 * kMiB, config);
  const TensorId a = declare("a", 4 * kMiB);
  const TensorId b = declare("b", 4 * kMiB);
  put(a, content(4 * kMiB, 1));
  put(b, content(4 * kMiB, 2));
  EXPECT_EQ(engine_->stats().resident_bytes, 8 * kMiB);
  const TensorId embedding = declare("model.embed_tokens.weight", 6 * kMiB);
  put(embedding, content(6 * kMiB, 3));
  EXPECT_TRUE(engine_->state(embedding).value().resident);
  EXPECT_LE(engine_->stats().resident_bytes, 8 * kMiB);
  expect_content(a, content(4 * kMiB, 1));
  expect_content(b, content(4 * kMiB, 2));
  expect_content(embedding, content(6 * kMiB, 3));
  ASSERT_TRUE(engine_->plan().has_value());
  EXPECT_TRUE(engine_->state(embedding).value().resident);
}

TEST_F(SwapEngineMemoryTest, ARuleByNameHoldsOnceTheNameIsKnown) {
  EngineConfig config;
  TensorRule rule;
  rule.match = "model.embed";
  rule.place = Place::kRam;
  config.tensors = {rule};
  open(16 * kMiB, 6 * kMiB, config);
  const TensorId first = declare("parameter 0", 4 * kMiB);
  const TensorId second = declare("parameter 1", 6 * kMiB);
  put(first, content(4 * kMiB, 1));
  put(second, content(6 * kMiB, 2));
  EXPECT_TRUE(engine_->state(first).value().resident);
  ASSERT_TRUE(engine_->rename(second, "model.embed").has_value());
  ASSERT_TRUE(engine_->plan().has_value());
  expect_content(second, content(6 * kMiB, 2));
  EXPECT_TRUE(engine_->state(second).value().resident);
  expect_content(first, content(4 * kMiB, 1));
  EXPECT_FALSE(engine_->state(first).value().resident);
}

TEST_F(SwapEngineMemoryTest, ARuleThatDoesNotFitIsAnErrorThatNamesIt) {
  EngineConfig config;
  TensorRule rule;
  rule.match = "big";
  rule.place = Place::kRam;
  rule.text = "{\"match\": \"big\", \"place\": \"ram\"}";
  config.tensors = {rule};
  open(16 * kMiB, 4 * kMiB, config);
  put(declare("big", 6 * kMiB), content(6 * kMiB, 1));
  const Result<void> planned = engine_->plan();
  ASSERT_TRUE(planned.has_error());
  EXPECT_NE(planned.error().message.find("big"), std::string::npos) << planned.error().message;
  EXPECT_NE(planned.error().message.find("ram_bytes"), std::string::npos)
      << planned.error().message;
}

TEST_F(SwapEngineMemoryTest, MoreLeasesThanThePoolHasOverflowAndComeBack) {
  open(8 * kMiB, 0);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 24; ++i) {
    tensors.push_back(declare(numbered(i), kMiB));
    put(tensors.back(), content(kMiB, i));
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<Ticket> tickets;
    for (const TensorId tensor : tensors) {
      tickets.push_back(engine_->get(tensor));
    }
    std::vector<Lease> leases;
    for (unsigned i = 0; i < 24; ++i) {
      leases.push_back(tickets[i].lease().value());
      EXPECT_EQ(std::memcmp(leases.back().data(), content(kMiB, i).data(), kMiB), 0);
    }
  }
  const SwapStats stats = engine_->stats();
  EXPECT_LE(stats.pool.pinned_bytes, 8 * kMiB);
  EXPECT_LE(stats.pool.overflow_bytes_max, 24 * kMiB);
  EXPECT_LE(warnings_.size(), 1u) << "said once";
}

TEST_F(SwapEngineMemoryTest, ReadingAheadNeverRaisesThePeakOfWhatCallersHold) {
  open(4 * kMiB, 0);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 16; ++i) {
    tensors.push_back(declare(numbered(i), 8 * kMiB));  // none fits the pool
    put(tensors.back(), content(8 * kMiB, i));
  }
  for (int step = 0; step < 4; ++step) {
    for (unsigned i = 0; i + 1 < 16; i += 2) {
      const Ticket a = engine_->get(tensors[i]);
      const Ticket b = engine_->get(tensors[i + 1]);
      EXPECT_TRUE(a.lease().has_value() && b.lease().has_value());
    }
  }
  // Two leases of 8 MiB at once are the callers' need; a third may be on its way while they change
  // hands.
  EXPECT_LE(engine_->stats().pool.overflow_bytes_max, 24 * kMiB);
}

TEST_F(SwapEngineMemoryTest, ViewsKeepWhatTheySawThoughTheTensorMovesOn) {
  open(4 * kMiB, 0);
  const TensorId tensor = declare("t", kMiB);
  put(tensor, content(kMiB, 1));
  const Lease old = engine_->get(tensor).lease().value();
  for (unsigned i = 2; i < 10; ++i) {
    commit(tensor, content(kMiB, i));
    expect_content(tensor, content(kMiB, i));
  }
  EXPECT_EQ(std::memcmp(old.data(), content(kMiB, 1).data(), kMiB), 0);
}

TEST_F(SwapEngineMemoryTest, PinnedMemoryIsWhatTheKernelCounts) {
  open(8 * kMiB, 0);
  for (unsigned i = 0; i < 16; ++i) {
    put(declare(numbered(i), kMiB), content(kMiB, i));
  }
  ASSERT_TRUE(engine_->plan().has_value());
  EXPECT_LE(engine_->stats().pool.pinned_bytes, 8 * kMiB);
  EXPECT_LE(engine_->placement().pinned_bytes, 8 * kMiB);
  EXPECT_GT(engine_->stats().pool.pinned_bytes, 4 * kMiB);
}

// As a GPU's runtime would: registered once with each, whatever is read through it.
TEST_F(SwapEngineMemoryTest, OtherHooksShareTheRingsArenas) {
  std::uint64_t pinned_bytes = 0;
  int pins = 0;
  pin_hooks_ = {{.pin = [&](std::span<std::byte> memory) -> Result<void> {
                   pinned_bytes += memory.size();
                   ++pins;
                   return {};
                 },
                 .unpin = [&](std::span<std::byte> memory) { pinned_bytes -= memory.size(); }}};
  open(8 * kMiB, 0);
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 12; ++i) {
    tensors.push_back(declare(numbered(i), kMiB));
    put(tensors.back(), content(kMiB, i));
  }
  ASSERT_TRUE(engine_->plan().has_value());
  EXPECT_EQ(pinned_bytes, engine_->stats().pool.pinned_bytes);
  EXPECT_GT(pinned_bytes, 4 * kMiB);
  const int pins_of_the_plan = pins;
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < 12; ++i) {
      expect_content(tensors[i], content(kMiB, i));
    }
  }
  EXPECT_EQ(pins, pins_of_the_plan);
  ASSERT_TRUE(engine_->close().has_value());
  EXPECT_EQ(pinned_bytes, 0u);
}

TEST_F(SwapEngineMemoryTest, AHookThatRefusesCostsThePinnedMemoryAndNothingElse) {
  pin_hooks_ = {{.pin = [](std::span<std::byte>) -> Result<void> {
                   return system_error(ENODEV, "the device takes no memory");
                 },
                 .unpin = [](std::span<std::byte>) { FAIL() << "was not pinned"; }}};
  open(8 * kMiB, 0);
  for (unsigned i = 0; i < 4; ++i) {
    const TensorId tensor = declare(numbered(i), kMiB);
    put(tensor, content(kMiB, i));
    expect_content(tensor, content(kMiB, i));
  }
  EXPECT_EQ(engine_->stats().pool.pinned_bytes, 0u);
  ASSERT_FALSE(warnings_.empty());
  EXPECT_NE(warnings_[0].find("the device takes no memory"), std::string::npos) << warnings_[0];
}

TEST_F(SwapEngineMemoryTest, ANewPlanHasTheMemoryOfWhatWasReadAhead) {
  open(8 * kMiB, 0);
  std::vector<TensorId> small;
  for (std::size_t i = 0; i < 12; ++i) {
    small.push_back(declare(numbered(i), kMiB));
    put(small.back(), content(kMiB, static_cast<unsigned>(i)));
  }
  ASSERT_TRUE(engine_->plan().has_value());
  for (int pass = 0; pass < 2; ++pass) {  // it reads ahead into the next pass
    for (const TensorId tensor : small) {
      ASSERT_TRUE(engine_->get(tensor).lease().has_value());
    }
  }
  const TensorId large = declare("large", 2 * kMiB);
  put(large, content(2 * kMiB, 99));
  EXPECT_TRUE(eventually([this] {  // what is being read has its slot until it has ended
    warnings_.clear();
    return engine_->plan().has_value() && warnings_.empty();
  }));
  expect_content(large, content(2 * kMiB, 99));
  expect_content(small.front(), content(kMiB, 0));
}

}  // namespace
}  // namespace penstock
