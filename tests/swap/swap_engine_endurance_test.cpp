#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/alloc/sanitizers.h"
#include "tests/swap/engine_fixture.h"
#include "tests/swap/every_engine.h"

namespace penstock {
namespace {

constexpr auto kOperations = static_cast<unsigned>(work(100'000));
constexpr unsigned kUsers = 8;
constexpr unsigned kTensorsEach = 6;

/// What must not grow, however long an engine is used.
struct Footprint {
  std::size_t descriptors = 0;
  std::uint64_t drive_bytes = 0;      // extents in use
  std::uint64_t allocated_bytes = 0;  // of all files that this process has open in the directory
  std::uint64_t slot_bytes = 0;
  std::uint64_t overflow_bytes = 0;
  std::uint64_t heap_bytes = 0;
};

/// One thread's tensors and what each must contain.
struct Share {
  std::vector<TensorId> tensors;
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint32_t> newest;
  std::mt19937 random;
  std::vector<Lease> kept;
};

class SwapEngineEnduranceTest : public EngineFixture,
                                public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    EngineConfig config;
    config.engine = parse_engine_kind(GetParam()).value();
    open(4 * kMiB, 128 * kKiB, config);
    for (unsigned t = 0; t < kUsers; ++t) {
      Share& share = shares_.emplace_back();
      share.random.seed(t);
      for (unsigned i = 0; i < kTensorsEach; ++i) {
        share.bytes.push_back(1 + (t * 977 + i * 6151) % (40 * kKiB));
        share.tensors.push_back(declare(numbered(t * kTensorsEach + i), share.bytes.back()));
        share.newest.push_back(0);
        write(share, i);
      }
    }
  }

  /// Words that tell tensor, version and place, so that no two contents have one in common.
  static std::vector<std::byte> filled(std::uint64_t bytes, std::uint32_t version) {
    std::vector<std::uint64_t> words(bytes / sizeof(std::uint64_t) + 1);
    for (std::size_t i = 0; i < words.size(); ++i) {
      words[i] = (std::uint64_t{version} << 32 | i) * 0x9e3779b97f4a7c15;
    }
    std::vector<std::byte> data(bytes);
    std::memcpy(data.data(), words.data(), bytes);
    return data;
  }

  void write(Share& share, std::size_t i) {
    const auto version = static_cast<std::uint32_t>(share.random());
    const auto data = filled(share.bytes[i], version);
    const Ticket done =
        version % 2 == 0 ? engine_->put(share.tensors[i], data) : commit(share.tensors[i], data);
    const bool wait = version % 2 == 0 || version % 3 == 0;
    wrong_ += wait && done.wait().has_error() ? 1 : 0;
    share.newest[i] = version;
  }

  void update(Share& share, std::size_t i) {
    Lease lease = engine_->get(share.tensors[i], Access::kUpdate).lease().value();
    check(lease.span(), share, i);
    share.newest[i] = static_cast<std::uint32_t>(share.random());
    const auto data = filled(share.bytes[i], share.newest[i]);
    std::memcpy(lease.data(), data.data(), data.size());
    (void)engine_->commit(lease);
  }

  void check(std::span<const std::byte> found, const Share& share, std::size_t i) {
    const auto expected = filled(share.bytes[i], share.newest[i]);
    wrong_ += found.size() != expected.size() ||
                      std::memcmp(found.data(), expected.data(), expected.size()) != 0
                  ? 1
                  : 0;
  }

  void read(Share& share, std::size_t i) {
    if (share.random() % 3 == 0) {
      std::vector<std::byte> target(share.bytes[i] + 1);
      const auto unaligned = std::span(target).subspan(1);
      wrong_ += engine_->get_into(share.tensors[i], unaligned).wait().has_error() ? 1 : 0;
      check(unaligned, share, i);
      return;
    }
    Lease lease = engine_->get(share.tensors[i]).lease().value();
    check(lease.span(), share, i);
    if (share.random() % 4 == 0) {
      share.kept.push_back(std::move(lease));
      share.kept.erase(share.kept.begin(),
                       share.kept.end() - std::min<std::ptrdiff_t>(2, std::ssize(share.kept)));
    }
  }

  /// What a runtime does, in random order.
  void use(Share& share, unsigned operations) {
    for (unsigned done = 0; done < operations; ++done) {
      const std::size_t i = share.random() % kTensorsEach;
      switch (share.random() % 8) {
        case 0:
        case 1:
          write(share, i);
          break;
        case 2:
          update(share, i);
          break;
        case 3:
          engine_->prefetch(share.tensors);
          break;
        default:
          read(share, i);
      }
    }
    share.kept.clear();
  }

  Footprint use_by_all(unsigned operations) {
    std::vector<std::thread> threads;
    for (Share& share : shares_) {
      threads.emplace_back([this, &share, operations] { use(share, operations / kUsers); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_TRUE(engine_->flush().has_value());
    for (Share& share : shares_) {
      for (std::size_t i = 0; i < kTensorsEach; ++i) {
        check(engine_->get(share.tensors[i]).lease().value().span(), share, i);
        write(share, i);  // all of it lies on the drive now, whatever was resident
      }
    }
    EXPECT_TRUE(engine_->flush().has_value());
    return footprint();
  }

  Footprint footprint() {
    Footprint now;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      ++now.descriptors;
      std::error_code gone;
      struct ::stat facts{};
      const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
      if (target.starts_with(directory_.path() + "/") &&
          ::stat(entry.path().c_str(), &facts) == 0) {
        now.allocated_bytes += static_cast<std::uint64_t>(facts.st_blocks) * 512;
      }
    }
    const SwapStats stats = engine_->stats();
    now.drive_bytes = stats.drive_bytes;
    now.slot_bytes = stats.pool.slot_bytes_live;
    now.overflow_bytes = stats.pool.overflow_bytes;
    now.heap_bytes = ::mallinfo2().uordblks;
    return now;
  }

  std::vector<Share> shares_;
  std::atomic<unsigned> wrong_{0};
};

TEST_P(SwapEngineEnduranceTest, NothingGrowsAndNothingIsLost) {
  const Footprint early = use_by_all(kOperations / 5);
  const Footprint late = use_by_all(kOperations - kOperations / 5);
  EXPECT_EQ(wrong_, 0U);
  EXPECT_EQ(engine_->stats().write_failures, 0U);
  EXPECT_EQ(late.descriptors, early.descriptors);
  EXPECT_EQ(late.allocated_bytes, early.allocated_bytes);
  EXPECT_GT(late.allocated_bytes, 0U);
  EXPECT_LE(late.slot_bytes, 4 * kMiB);
  EXPECT_LE(late.overflow_bytes, engine_->stats().pool.overflow_bytes_max);
  std::uint64_t stored = 0;
  for (const Share& share : shares_) {
    for (const std::uint64_t bytes : share.bytes) {
      stored += align_up(bytes, kBlockBytes) + kBlockBytes;
    }
  }
  EXPECT_TRUE(eventually([&] { return engine_->stats().drive_bytes <= stored; }))
      << "at most one extent a tensor";
  if (!kSanitized) {
    // The access trace remembers every use up to a million, at some 16 bytes each.
    EXPECT_LE(late.heap_bytes, early.heap_bytes + 8 * kMiB);
  }
  for (Share& share : shares_) {
    for (const TensorId tensor : share.tensors) {
      ASSERT_TRUE(engine_->forget(tensor).has_value());
    }
  }
  EXPECT_TRUE(eventually([&] {
    const Footprint end = footprint();
    return end.drive_bytes + end.slot_bytes + end.overflow_bytes == 0;
  })) << "without a holder nothing is kept";
}

PENSTOCK_ON_EVERY_ENGINE(SwapEngineEnduranceTest);

}  // namespace
}  // namespace penstock
