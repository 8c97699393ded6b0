#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "alloc/page_source.h"
#include "io/sim_disk.h"
#include "swap/store/durable_store.h"
#include "swap/transfer/checksum.h"
#include "tests/alloc/random_bytes.h"
#include "tests/alloc/same_bytes.h"
#include "tests/alloc/sanitizers.h"

namespace penstock {
namespace {

constexpr std::array<const char*, 3> kNames{"a", "b", "c"};

/// A store on a simulated drive, to which round after round is published until the power goes.
/// Contents are moved by plain reads and writes: what is tested is when they are safe.
class PowerCuts {
 public:
  PowerCuts(std::uint64_t seed, double sync_errors) {
    SimDiskOptions options;
    options.seed = seed;
    options.rates[static_cast<std::size_t>(SimFault::kSyncError)] = sync_errors;
    disk_ = std::make_unique<SimDisk>(options);
    memory_ = PageSource::make()->allocate(kMemoryBytes).value();
  }

  /// Rounds until the power is cut after some requests; then what is left must be whole, and of a
  /// round that has been published or was about to be.
  void cut() {
    disk_->cut_power_after(disk_->random(kRequestsMax));
    while (!disk_->power_is_cut()) {
      run();
    }
    store_.reset();
    disk_->restore_power();
    for (int tries = 0; !store_; ++tries) {
      ASSERT_LT(tries, 50) << "cannot be opened: " << refusal_;
      open();
    }
    const std::optional<std::uint32_t> found = round_found();
    ASSERT_TRUE(found) << "after round " << published_ << " the tensors are of different rounds, "
                       << "or in pieces";
    EXPECT_GE(*found, published_) << "a published round is lost";
    EXPECT_LE(*found, begun_);
    published_ = *found;
  }

  std::uint32_t published() const { return published_; }

 private:
  static constexpr std::uint64_t kMemoryBytes = 64 * kKiB;
  static constexpr std::uint64_t kRequestsMax = 120;

  void open() {
    auto opened = DurableStore::open({"/store", DurableStoreOptions::Access::kWrite, {}, &*disk_});
    if (opened.has_error()) {
      refusal_ = opened.error().message;
      return;
    }
    store_ = std::move(opened).value();
  }

  void run() {
    if (!store_) {
      open();
      return;
    }
    ++begun_;
    for (const std::string name : kNames) {
      if (put(name, begun_).has_error()) {
        store_.reset();  // its drive could not be opened, or the power is cut
        return;
      }
    }
    if (disk_->random(10) == 0) {
      const bool closed = store_->close().has_value();
      store_.reset();
      published_ = closed ? begun_ : published_;
    } else if (store_->publish().has_value()) {
      published_ = begun_;
    }
  }

  static std::uint64_t content_bytes(std::uint32_t round) {
    return IdentityBlock::kBytes * (1 + round % 7);
  }

  /// As TensorTransfer has it; contents here are whole blocks.
  void compose(std::uint32_t round, std::uint64_t bytes) {
    const std::span<std::byte> content = memory_.span().first(bytes);
    fill_random(content, round);
    std::memcpy(content.data(), &round, sizeof(round));
  }

  Result<void> put(const std::string& name, std::uint32_t round) {
    const std::optional<CatalogEntry> old = store_->find(name);
    const std::uint64_t number = old ? old->extent->identity.tensor : store_->number_tensor();
    const std::uint64_t bytes = content_bytes(round);
    Result<StoredTensor> reserved = store_->reserve(number, round, bytes);
    if (reserved.has_error()) {
      return reserved.error();
    }
    compose(round, bytes);
    reserved->identity.level = static_cast<std::uint64_t>(IntegrityLevel::kFull);
    reserved->identity.checksum = checksum(IntegrityLevel::kFull, memory_.span().first(bytes));
    const auto held = store_->hold(*reserved);
    held->identity.encode(memory_.span().subspan(bytes).first<IdentityBlock::kBytes>());
    PENSTOCK_TRY(store_->file(*held).write_at(held->extent.offset,
                                              memory_.span().first(held->layout_bytes())));
    return store_->stage({name, DType::kU8, {bytes}, Role::kParam}, held);
  }

  /// 0 if there are no tensors yet; nothing if not all are there and whole, of the same round.
  std::optional<std::uint32_t> round_found() {
    std::optional<std::uint32_t> found;
    for (const std::string name : kNames) {
      const std::optional<std::uint32_t> round = round_of(name);
      if (!round || (found && *found != *round)) {
        return std::nullopt;
      }
      found = round;
    }
    return found;
  }

  std::optional<std::uint32_t> round_of(const std::string& name) {
    const std::optional<CatalogEntry> entry = store_->find(name);
    if (!entry) {
      return 0;
    }
    const StoredTensor& stored = *entry->extent;
    std::vector<std::byte> expected(stored.bytes());
    const std::span<std::byte> memory = memory_.span().first(stored.layout_bytes());
    if (store_->file(stored).read_at(stored.extent.offset, memory).has_error()) {
      return std::nullopt;
    }
    std::uint32_t round = 0;
    std::memcpy(&round, memory.data(), sizeof(round));
    copy_bytes(memory.first(stored.bytes()), expected.data());
    compose(round, stored.bytes());
    const bool whole = stored.bytes() == content_bytes(round) &&
                       same_bytes(expected, memory.first(stored.bytes()));
    return whole ? std::optional(round) : std::nullopt;
  }

  std::unique_ptr<SimDisk> disk_;  // before the store: outlives it
  Memory memory_;
  std::unique_ptr<DurableStore> store_;
  std::string refusal_;  // of the last try to open it
  std::uint32_t begun_ = 0;
  std::uint32_t published_ = 0;
};

class DurableStorePowerCutTest : public ::testing::TestWithParam<double> {};

TEST_P(DurableStorePowerCutTest, LeavesTheLastPublishedContentsOrLaterOnes) {
  for (std::uint64_t seed = 1; seed <= work(40); ++seed) {
    PowerCuts run(seed, GetParam());
    for (int cuts = 0; cuts < 25; ++cuts) {
      ASSERT_NO_FATAL_FAILURE(run.cut()) << "seed " << seed << ", cut " << cuts;
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", cut " << cuts;
    }
    EXPECT_GT(run.published(), 20U) << "too little was published to prove anything";
  }
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutSyncsThatFail, DurableStorePowerCutTest,
                         ::testing::Values(0.0, 0.05));

}  // namespace
}  // namespace penstock
