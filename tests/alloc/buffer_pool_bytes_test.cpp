#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/bytes.h"
#include "alloc/limiting_source.h"
#include "alloc/pinned_source.h"

namespace penstock {
namespace {

// Addresses with no memory behind them, so that 4 GiB can be "pinned" anywhere.
class AddressSource final : public MemorySource {
 public:
  Result<Memory> allocate(std::uint64_t bytes) override {
    const Result<std::uint64_t> blocks = whole_blocks(bytes);
    if (!blocks) {
      return blocks.error();
    }
    void* mapped =
        ::mmap(nullptr, *blocks, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      return system_error(errno, "mmap");
    }
    return Memory(shared_from_this(), static_cast<std::byte*>(mapped), *blocks);
  }
  std::string_view name() const noexcept override { return "addresses"; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override {
    EXPECT_EQ(::munmap(data, bytes), 0);
  }
};

// What a ring and a GPU would be asked to pin.
class BufferPoolBytes : public testing::Test {
 protected:
  PinHook counting() {
    return {.pin = [this](std::span<std::byte> memory) -> Result<void> {
              pinned_bytes_ += memory.size();
              return {};
            },
            .unpin = [this](std::span<std::byte> memory) { pinned_bytes_ -= memory.size(); }};
  }
  static BufferPoolOptions over(std::shared_ptr<MemorySource> pinned) {
    BufferPoolOptions options;
    options.pinned = std::move(pinned);
    return options;
  }
  void expect_at_most_half_a_percent_more(std::uint64_t requested_bytes) const {
    EXPECT_LE(pinned_bytes_ * 1000, requested_bytes * 1005) << "for " << requested_bytes;
    EXPECT_EQ(pool_.stats().pinned_bytes, pinned_bytes_);
    EXPECT_EQ(budget_->held_bytes(), pinned_bytes_);
  }

  std::uint64_t pinned_bytes_ = 0;
  std::shared_ptr<LimitingSource> budget_ = LimitingSource::make(
      PinnedSource::make(std::make_shared<AddressSource>(), {counting()}), 64 * kGiB, "all");
  BufferPool pool_{over(budget_)};
};

// 1 MiB to 4 GiB: powers of two and their neighbours, on which allocators that round up to the next
// one waste most; sizes that users reported (1.78 times as much pinned); and any others.
std::vector<std::uint64_t> single_sizes() {
  std::vector<std::uint64_t> sizes = {9 * kGiB / 4, 9 * kGiB / 8, 9 * kGiB / 16, 311164928};
  for (std::uint64_t power = kMiB; power <= 4 * kGiB; power *= 2) {
    for (const std::uint64_t more : {0U, 1U, 4095U, 4096U, 4097U}) {
      sizes.push_back(power + more <= 4 * kGiB ? power + more : power - more);
    }
  }
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> exponent(20, 32);
  for (int count = 0; count < 200; ++count) {
    sizes.push_back(static_cast<std::uint64_t>(std::exp2(exponent(random))));
  }
  return sizes;
}

TEST_F(BufferPoolBytes, ADedicatedBufferPinsWhatWasAskedFor) {
  for (const std::uint64_t bytes : single_sizes()) {
    const std::optional<Buffer> buffer = pool_.try_acquire(bytes);
    ASSERT_TRUE(buffer) << bytes;
    EXPECT_EQ(buffer->kind(), BufferKind::kDedicated);
    expect_at_most_half_a_percent_more(bytes);
  }
  EXPECT_EQ(pinned_bytes_, 0U);
}

TEST_F(BufferPoolBytes, AClassPinsWhatItsSlotsHold) {
  for (const std::uint64_t bytes : single_sizes()) {
    for (const std::uint32_t slots : {1U, 3U}) {
      ASSERT_TRUE(pool_.shape(std::vector<ClassPlan>{{bytes, slots}})) << bytes;
      std::vector<Buffer> buffers;
      for (std::uint32_t slot = 0; slot < slots; ++slot) {
        buffers.push_back(*pool_.try_acquire_slot(bytes));
      }
      expect_at_most_half_a_percent_more(bytes * slots);
      EXPECT_EQ(pool_.stats().slot_bytes_live, bytes * slots);
    }
  }
  ASSERT_TRUE(pool_.shape({}));
  EXPECT_EQ(pinned_bytes_, 0U);
}

}  // namespace
}  // namespace penstock
