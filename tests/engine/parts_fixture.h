#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "swap/engine/engine_core.h"

namespace penstock {

/// A store without drives, which remembers what it was asked to publish.
class NamesStore final : public SwapStore {
 public:
  explicit NamesStore(bool durable) : SwapStore(os_file_system()), durable_(durable) {}
  bool is_durable() const noexcept override { return durable_; }
  void stage_removal(const std::string& name) override { staged.push_back("-" + name); }
  void stage_name(const std::string& from, const std::string& to) override {
    staged.push_back(from + ">" + to);
  }

  std::vector<std::string> staged;

 private:
  bool durable_;
};

/// What deferred work would have done.
class RecordingWorker final : public DeferredWork::Worker {
 public:
  void send(WritingPtr writing) noexcept override {
    did.push_back("send");
    sent.push_back(std::move(writing));
  }
  void fill(const FillRequest& request) noexcept override {
    did.push_back(request.is_ahead ? "fill ahead" : "fill");
  }
  void copy(CopyRequest request) noexcept override {
    did.push_back("copy");
    copies.push_back(std::move(request));
  }
  void run_ahead() noexcept override { did.push_back("run ahead"); }

  std::vector<std::string> did;
  std::vector<WritingPtr> sent;
  std::vector<CopyRequest> copies;
};

/// What the parts work on, without drives: a queue that moves nothing and 4 MiB of RAM for
/// residents.
class PartsFixture : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRamBytes = 4 * kMiB;

  PartsFixture() {
    ground_.context.worker = &worker_;
    ground_.context.queue = IoQueue::start(EngineKind::kNull, {}).value();
    ground_.context.options.warn = [](const Warning&) {};
    ground_.context.engine = owner_;
    EngineMemory::Sources sources;
    sources.resident = PageSource::make({});
    sources.overflow = RecyclingSource::make(sources.resident);
    sources.transfers = TransferMemory::make(sources.resident);
    sources.pinned = LimitingSource::make(sources.resident, 0, "max_pinned_bytes");
    ground_.memory.open(std::move(sources), std::weak_ptr<LeaseKeeper>(keeper()));
    ground_.memory.residency().set_limit_bytes(kRamBytes);
    ground_.memory.budgets().ram_given = true;
    ground_.memory.budgets().quarter_bytes = kGiB;
    space_ = ground_.table.open("test", store_);
  }
  ~PartsFixture() override { ground_.context.queue->stop(); }

  std::shared_ptr<LeaseKeeper> keeper() {
    return {owner_, static_cast<LeaseKeeper*>(&ground_.broker)};
  }

  TensorRecord& add(const std::string& name, std::uint64_t bytes = kMiB) {
    return ground_.table.add(space_, {name, DType::kU8, {bytes}, Role::kParam});
  }
  /// As a commit leaves it: in RAM, with a claim, and on no drive.
  TensorRecord& add_resident(const std::string& name, std::uint64_t bytes = kMiB) {
    TensorRecord& record = add(name, bytes);
    EXPECT_TRUE(ground_.memory.residency().claim(record.id, bytes, Residency::Claim::kSpare));
    record.memory.block = ground_.memory.resident_block(bytes).value();
    record.generation = 1;
    record.memory.become_current(1);
    return record;
  }

  std::shared_ptr<NamesStore> store_ = std::make_shared<NamesStore>(false);
  std::shared_ptr<int> owner_ = std::make_shared<int>(0);
  RecordingWorker worker_;
  EngineGround ground_;
  NamespaceId space_{};
};

}  // namespace penstock
