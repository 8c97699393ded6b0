#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "alloc/page_source.h"
#include "io/io_queue.h"
#include "swap/store/durable_store.h"
#include "swap/transfer/checksum.h"
#include "tests/alloc/random_bytes.h"
#include "tests/io/temp_directory.h"
#include "tests/transfer/transfer_outcome.h"

namespace penstock {

/// Durable stores, and what it takes to put contents into them.
class DurableFixture : public ::testing::Test {
 protected:
  DurableFixture() {
    IoEngineOptions options;
    options.depth = 8;
    queue_ = IoQueue::start(EngineKind::kThreads, options).value();
    BufferPoolOptions pool;
    pool.pinned = PageSource::make();
    pool.overflow = PageSource::make();
    pool_ = std::make_unique<BufferPool>(std::move(pool));
  }

  static PathConfig path(const std::string& directory) {
    return {directory, std::nullopt, std::nullopt};
  }

  using Opened = Result<std::unique_ptr<DurableStore>>;
  Opened try_open(std::vector<PathConfig> paths = {}, FileSystem& system = os_file_system(),
                  DurableStoreOptions::Access access = DurableStoreOptions::Access::kWrite) {
    return DurableStore::open({directory_ / "store", access, std::move(paths), &system});
  }
  std::unique_ptr<DurableStore> open(std::vector<PathConfig> paths = {},
                                     FileSystem& system = os_file_system()) {
    Opened opened = try_open(std::move(paths), system);
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return std::move(opened).value();
  }
  std::unique_ptr<DurableStore> open_trusting(std::vector<std::string> trusted) {
    Opened opened = DurableStore::open({directory_ / "store",
                                        DurableStoreOptions::Access::kWrite,
                                        {},
                                        &os_file_system(),
                                        std::move(trusted)});
    EXPECT_TRUE(opened.has_value()) << opened.error().message;
    return std::move(opened).value();
  }
  std::unique_ptr<DurableStore> open_to_read() {
    return try_open({}, os_file_system(), DurableStoreOptions::Access::kRead).value();
  }

  static std::vector<std::byte> content(std::uint64_t bytes, unsigned seed) {
    return random_bytes(bytes, seed);
  }

  /// Writes the next content and stages it, as an engine does.
  Result<void> put(DurableStore& store, const std::string& name, std::span<const std::byte> data) {
    Result<CatalogEntry> written = write(store, name, data);
    PENSTOCK_TRY(written);
    return store.stage(written->info, written->extent);
  }

  Result<CatalogEntry> write(DurableStore& store, const std::string& name,
                             std::span<const std::byte> data) {
    const std::optional<CatalogEntry> old = store.find(name);
    const std::uint64_t number = old ? old->extent->identity.tensor : store.number_tensor();
    const std::uint64_t generation = old ? old->extent->identity.generation + 1 : 1;
    Result<StoredTensor> reserved = store.reserve(number, generation, data.size());
    if (reserved.has_error()) {
      return reserved.error();
    }
    StoredTensor stored = *reserved;
    stored.identity.level = static_cast<std::uint64_t>(IntegrityLevel::kFull);
    stored.identity.checksum = checksum(IntegrityLevel::kFull, data);
    const HeldExtent held = store.hold(stored);
    std::vector<std::byte> source(data.begin(), data.end());
    if (auto error = transfer(store, stored, source, IoKind::kWrite)) {
      return std::move(*error);
    }
    return CatalogEntry{{name, DType::kU8, {data.size()}, Role::kParam}, held};
  }

  std::optional<Error> transfer(const DurableStore& store, const StoredTensor& stored,
                                std::span<std::byte> memory, IoKind kind) {
    HostTransfer::Place place{queue_.get(),        pool_.get(), transfers_,
                              &store.file(stored), stored,      bytes_info("t", stored.bytes())};
    return transfer_outcome([&](auto done) {
      return kind == IoKind::kRead
                 ? HostTransfer::of_read(std::move(place), memory, IoPriority::kDemand, done)
                 : HostTransfer::of_write(std::move(place), memory, IoPriority::kDemand, done);
    });
  }

  /// Whether the store holds exactly this, proved by identity and checksum.
  ::testing::AssertionResult holds(const DurableStore& store, const std::string& name,
                                   const std::vector<std::byte>& data) {
    const std::optional<CatalogEntry> entry = store.find(name);
    if (!entry) {
      return ::testing::AssertionFailure() << name << " is not there";
    }
    std::vector<std::byte> found(entry->extent->bytes());
    if (const auto error = transfer(store, *entry->extent, found, IoKind::kRead)) {
      return ::testing::AssertionFailure() << error->message;
    }
    if (found != data) {
      return ::testing::AssertionFailure()
             << name << " has other bytes, of generation " << entry->extent->identity.generation;
    }
    return ::testing::AssertionSuccess();
  }

  TempDirectory directory_;
  std::unique_ptr<IoQueue> queue_;
  std::shared_ptr<TransferMemory> transfers_ = TransferMemory::make(PageSource::make());
  std::unique_ptr<BufferPool> pool_;
};

}  // namespace penstock
