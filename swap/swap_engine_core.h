#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/buffer_pool.h"
#include "alloc/limiting_source.h"
#include "alloc/out_of_memory.h"
#include "alloc/page_source.h"
#include "alloc/recycling_source.h"
#include "io/io_queue.h"
#include "swap/content_reader.h"
#include "swap/content_writer.h"
#include "swap/engine/deferred_work.h"
#include "swap/engine/locked.h"
#include "swap/engine/writing.h"
#include "swap/held_buffer_ledger.h"
#include "swap/lease_token.h"
#include "swap/plan/placement.h"
#include "swap/schedule/prefetch_scheduler.h"
#include "swap/schedule/read_ahead.h"
#include "swap/schedule/residency.h"
#include "swap/stats.h"
#include "swap/store/device_staging.h"
#include "swap/store/durable_store.h"
#include "swap/swap_engine.h"
#include "swap/tensor_record.h"
#include "swap/trace_log.h"

namespace penstock {

/// The engine behind SwapEngine; leases and transfers in flight hold it alive. One mutex guards all
/// records (Locked): operations move megabytes each, so it is never the bottleneck.
///
/// Lock order: mutex_ before the locks of store, pool, queue and tickets, never the other way
/// round.
class SwapEngineCore final : public std::enable_shared_from_this<SwapEngineCore>,
                             private DeferredWork::Worker {
 public:
  static Result<std::shared_ptr<SwapEngineCore>> make(SwapEngineOptions options);
  ~SwapEngineCore();

  Result<NamespaceId> open_namespace(std::string name, std::vector<PathConfig> paths);
  Result<void> close_namespace(NamespaceId space);
  Result<TensorId> declare(NamespaceId space, TensorInfo info, bool to_put);
  Result<void> forget(TensorId tensor);
  Result<void> rename(TensorId tensor, std::string name);
  Result<void> set_trained(TensorId tensor, bool is_trained);
  Result<TensorInfo> info(TensorId tensor) const;
  std::optional<TensorId> find(NamespaceId space, const std::string& name) const;
  std::vector<TensorId> tensors(NamespaceId space) const;

  Result<Lease> allocate(TensorId tensor);
  Ticket commit(const Lease& lease);
  Ticket put(TensorId tensor, std::span<const std::byte> source);
  Ticket get(TensorId tensor, Access access);
  Ticket get_into(TensorId tensor, std::span<std::byte> target);
  Ticket get_to_device(TensorId tensor, const DeviceTensor& target);
  Ticket put_from_device(TensorId tensor, const DeviceTensor& source);
  Result<StreamId> device_stream(const Device& device, DeviceTransfer::Direction direction) const;
  void prefetch(std::span<const TensorId> tensors);
  Result<ContentReader> read(const std::vector<TensorId>& tensors);
  Result<ContentWriter> write();

  Result<void> flush();
  Result<void> check();
  Result<void> plan();
  Placement placement() const;
  SwapStats stats() const;
  std::optional<std::string> overflow_advice() const;
  Result<TensorState> state(TensorId tensor) const;
  Result<void> close();

  /// Room for a tensor's next content, for ContentWriter.
  struct NewContent {
    std::uint64_t bytes = 0;
    Lease lease;                           // empty: on a drive
    std::shared_ptr<StoredTensor> stored;  // null: in the lease
    std::shared_ptr<SwapStore> store;
  };
  Result<NewContent> reserve_content(TensorId tensor);
  Ticket adopt_content(TensorId tensor, std::shared_ptr<StoredTensor> stored);

  void lease_ended(LeaseToken& token) noexcept;
  void update_ended(LeaseToken& token) noexcept;
  /// The engine's clock, and what callers have waited by it; valid while the engine is open.
  TraceLog::Watch watch() const;

 private:
  class Surroundings;
  friend class Surroundings;

  struct Namespace {
    std::string name;
    std::shared_ptr<SwapStore> store;
    std::unordered_map<std::string, TensorId> by_name;
  };
  struct Failure {
    Error error;
    std::shared_ptr<TicketState> ticket;  // whoever waits for it knows; may be null
  };

  explicit SwapEngineCore(SwapEngineOptions options);
  Result<void> start();
  void run_loop_near(const std::vector<PathConfig>& paths);
  bool untold_failure();
  void give_advice() const;
  std::unique_ptr<BufferPool> drop_everything(Result<void>& written) noexcept;
  Result<void> tell_failure();

  // Stores (swap_engine_store.cpp).
  Result<std::shared_ptr<SwapStore>> open_store(const std::vector<PathConfig>& paths) const;
  void resume(NamespaceId space, const DurableStore& store);
  void drop_namespace(NamespaceId space, Locked& locked) noexcept;
  void write_again(Locked& locked);
  Result<void> publish_stores(Result<void> written);
  std::optional<Error> kept_from_drives() const;

  // Records (swap_engine_core.cpp).
  TensorRecord& add_record(NamespaceId space, TensorInfo info);
  void find_rule(TensorRecord& record) const;
  TensorRecord* record_of(TensorId tensor) const;
  Error unknown(TensorId tensor) const;
  Error not_open() const;
  void erase_record(TensorRecord& record, Locked& locked) noexcept;
  void undo_declaration(TensorId tensor, Locked& locked) noexcept;
  enum class Lent : std::uint8_t { kToRead, kToUpdate, kToFill };
  Lease lend(TensorRecord& record, Lent lent);
  Lease lend(const std::shared_ptr<Block>& block, TensorRecord& record, Lent lent);
  void end_changes(LeaseToken& token) noexcept;
  void drop_memory(TensorRecord& record, Locked& locked) noexcept;
  void update_use(TensorRecord& record) noexcept;
  void count_block(Block& block, OverflowUse use) noexcept;
  void hold(Block& block, const TensorRecord& record) const noexcept;
  SwapStats stats_now() const;
  void note_memory_peak();
  void warn(const std::string& sentence) const { options_.warn(sentence); }
  void operation_begun() { ++operations_; }
  void operation_ended() noexcept;

  // Contents in parts (swap_engine_stream.cpp).
  struct ReadyContent {
    Lease lease;                          // empty: it lies on a drive
    std::optional<StoredContent> stored;  // nothing: in the lease
    std::shared_ptr<const SwapStore> store;
  };
  Result<ReadyContent> ready_content(TensorId tensor);

  // Devices (swap_engine_device.cpp).
  Result<void> open_stagings(const std::vector<PinHook>& hooks);
  DeviceStaging::Shape staging_shape(std::uint64_t max_pinned_bytes) const;
  std::shared_ptr<DirectStorage> direct_storage_of(const Device& device) const;
  Result<DeviceStaging*> staging_of(const DeviceTensor& tensor) const;
  Result<DeviceStaging*> check_device(const TensorRecord& record, const DeviceTensor& tensor) const;
  bool is_read_from_drive(const TensorRecord& record) const;
  struct DeviceRead {
    DeviceStaging::Request request;
    HeldExtent extent;
    std::shared_ptr<SwapStore> store;
  };
  Ticket get_to_device_by_lease(TensorId tensor, const TensorInfo& info,
                                const DeviceTensor& target);
  void copy_to_device(const Lease& lease, TensorInfo info, const DeviceTensor& target,
                      const std::shared_ptr<TicketState>& state);
  void delivered(TicketState& state, std::uint64_t bytes, std::optional<Error> error);
  bool on_own_thread() const;
  DeviceRead device_read(const TensorRecord& record, const DeviceTensor& target);
  void begin_device_read(DeviceRead read, std::shared_ptr<TicketState> state);
  std::shared_ptr<Block> arrival_block(TensorId tensor, bool stays, std::uint64_t bytes);
  void begin_arrival(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept;
  void begin_copy(WritingPtr writing) noexcept;
  void arrived(const WritingPtr& writing, std::optional<Error> error) noexcept;
  void write_from_device(WritingPtr writing);
  bool arrive_instead(const WritingPtr& writing, const Error& error);

  // Memory (swap_engine_memory.cpp).
  Result<std::shared_ptr<Block>> obtain_block(TensorId tensor);
  std::shared_ptr<Block> free_slot_block(const TensorRecord& record, Locked& locked);
  Result<std::shared_ptr<Block>> ladder_block(TensorId tensor, std::uint64_t bytes);
  void provide_pages(const Block& block);
  Result<std::shared_ptr<Block>> resident_block(std::uint64_t bytes) const;
  Result<std::shared_ptr<Block>> resident_copy(std::span<const std::byte> source) const;
  bool claim_residency(TensorRecord& record, Locked& locked);
  void demote(TensorId tensor, Locked& locked);
  std::optional<Buffer> take_over_ahead(std::uint64_t bytes, Locked& locked);
  std::uint64_t kept_room_bytes() const;
  void wait_for_write_back(std::uint64_t bytes);
  std::uint64_t ns_since(Waiting::Clock::time_point begin) const;

  // The plan (swap_engine_plan.cpp).
  Result<std::vector<ClassPlan>> plan_locked(Locked& locked);
  Result<void> plan_before_use(TensorId tensor);
  void shape_pool(const std::vector<ClassPlan>& classes);
  std::vector<TensorId> planned_ids() const;
  std::vector<PlanTensor> plan_tensors(const std::vector<TensorId>& ids) const;
  Budgets pool_budgets(const BudgetFacts& facts) const;
  Result<Placement> compute_placement(const std::vector<PlanTensor>& tensors);
  std::vector<ClassPlan> apply_placement(Placement placement, const std::vector<TensorId>& ids,
                                         Locked& locked);
  void update_pinned_need() const;
  std::optional<std::string> new_overflow_advice() const;

  // Reading (swap_engine_read.cpp).
  void note_use(TensorId tensor) noexcept;
  void serve(TensorRecord& record, WaitingGet get, Locked& locked) noexcept;
  void serve_or_line_up(TensorRecord& record, WaitingGet get, Locked& locked);
  void serve_current(TensorRecord& record, WaitingGet get, Locked& locked);
  std::vector<WaitingGet> lend_to_readers(TensorRecord& record, Locked& locked) noexcept;
  static Error being_changed(const TensorRecord& record);
  bool changes_in_place(const TensorRecord& record) const;
  void lend_to_update(TensorRecord& record, WaitingGet get, Locked& locked);
  void lend_copy(TensorRecord& record, WaitingGet get, Locked& locked);
  void fill(const FillRequest& request) noexcept override;
  void fill_on_demand(const FillRequest& request) noexcept;
  void copy(CopyRequest request) noexcept override;
  void hand_out_copy(TensorRecord& record, WaitingGet get, Result<std::shared_ptr<Block>> copied,
                     Locked& locked) noexcept;
  TensorRecord* wanted(const FillRequest& request) const;
  static Error no_memory_to_read(const TensorRecord& record, const Error& cause);
  Ticket get_into_by_copy(TensorId tensor, std::span<std::byte> target);
  StoreTransfer::Place place_of(const SwapStore& store, const StoredTensor& stored,
                                const std::string& tensor_name) const;
  Result<void> start_read(TensorRecord& record, IoPriority priority);
  void read_finished(TensorId tensor, std::uint64_t fill, const std::shared_ptr<Block>& block,
                     std::optional<Error> error) noexcept;
  bool reads_again(TensorRecord& record) noexcept;
  void fail_reads(TensorRecord& record, const Error& error, Locked& locked) noexcept;

  // Reading ahead (swap_engine_ahead.cpp).
  void run_ahead() noexcept override;
  void fill_ahead(const FillRequest& request) noexcept;

  // Writing (swap_engine_write.cpp).
  static OlderContent older_content(const TensorRecord& record);
  WritingPtr make_writing(const TensorRecord& record, std::shared_ptr<TicketState> ticket) const;
  void replace(TensorRecord& record, Writing& writing, Locked& locked) noexcept;
  void note_rewrite(const TensorRecord& record) noexcept;
  void take_content(TensorRecord& record, LeaseToken& token, WritingPtr writing,
                    Locked& locked) noexcept;
  void settle_content(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept;
  Ticket put_content(TensorId tensor, std::span<const std::byte> source);
  Ticket put_device_content(TensorId tensor, const DeviceTensor& source);
  template <class Put>
  Ticket or_undeclared(TensorId tensor, Put put);
  void put_behind(TensorRecord& record, WritingPtr writing, std::span<const std::byte> source,
                  Locked& locked);
  Lease lend_in_place(TensorRecord& record);
  Result<Lease> resident_room(TensorId tensor, std::span<const std::byte> source, Lease in_place);
  void begin_write(WritingPtr writing, Locked& locked) noexcept;
  void send(WritingPtr writing) noexcept override;
  void write_memory(TensorRecord& record, WritingPtr writing, Locked& locked) noexcept;
  Result<void> reserve_space(Writing& writing) const;
  Result<void> submit_write(const WritingPtr& writing);
  void write_finished(const WritingPtr& writing, std::optional<Error> error) noexcept;
  void end_write(Writing& writing, std::optional<Error> error, bool is_kept,
                 Locked& locked) noexcept;
  void count_written(const Writing& writing) noexcept;
  std::optional<Error> stage(const TensorRecord& record, const Writing& writing) noexcept;
  void publish(TensorRecord& record, Writing& writing, Locked& locked) noexcept;
  void serve_again(TensorId tensor, std::vector<WaitingGet> waiting, Locked& locked) noexcept;
  void serve_after_write(TensorRecord& record, Locked& locked) noexcept;

  // Writes that fail (swap_engine_failure.cpp).
  bool goes_elsewhere(const WritingPtr& writing, const Error& error) noexcept;
  bool write_elsewhere(const WritingPtr& writing, const Error& error);
  void write_failed(TensorRecord* record, Writing& writing, Error error, Locked& locked) noexcept;
  void describe_failure(const TensorRecord* record, const Writing& writing, Error& error) const;
  void bring_back(TensorRecord& record, const Writing& writing) noexcept;
  bool may_stay_in_ram(const Writing& writing, const Error& error) noexcept;
  bool keep_in_ram(const Writing& writing, const Error& error, Result<std::shared_ptr<Block>> copy,
                   Locked& locked) noexcept;
  void bring_to_ram(const Writing& writing, std::shared_ptr<Block> copy, Locked& locked) noexcept;
  bool claim_for_newest(const Writing& writing);
  void give_up_claim(const Writing& writing);

  SwapEngineOptions options_;
  BudgetFacts facts_;  // of the machine, when the engine was opened
  Budgets budgets_;
  std::shared_ptr<MemorySource> resident_source_;
  std::shared_ptr<RecyclingSource> overflow_source_;
  std::shared_ptr<RecyclingSource> trailer_source_;
  std::shared_ptr<PageSource> pinned_pages_;
  std::shared_ptr<LimitingSource> pinned_source_;
  std::shared_ptr<IoQueue> queue_;  // also held by pinned memory, which may outlive the engine
  std::unique_ptr<BufferPool> pool_;
  std::vector<std::unique_ptr<DeviceStaging>> stagings_;  // as options_.devices
  std::uint64_t staging_bytes_ = 0;                       // theirs; no part of budgets_

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // operations_ or writing_bytes_ went down
  bool closed_ = false;
  std::atomic<bool> planned_{false};  // changed with the lock held
  std::uint64_t next_tensor_ = 1;
  std::uint32_t next_namespace_ = 1;
  std::map<NamespaceId, Namespace> namespaces_;
  std::map<TensorId, std::unique_ptr<TensorRecord>> records_;
  PrefetchScheduler scheduler_;
  Residency residency_{0};
  Placement placement_;
  ReadAhead ahead_;
  std::optional<Failure> first_failure_;     // of a write, until told
  bool failure_told_ = false;                // and no write has succeeded since
  std::uint64_t operations_ = 0;             // transfers in flight
  std::uint64_t writing_bytes_ = 0;          // contents of ours on their way to drives
  std::uint64_t ahead_overflow_bytes_ = 0;   // pageable bytes read ahead and not used yet
  std::uint64_t behind_overflow_bytes_ = 0;  // pageable bytes that only a write in flight holds
  std::uint64_t held_overflow_max_ = 0;      // most pageable bytes that callers ever held at once
  std::uint64_t held_content_max_ = 0;       // the largest content among them
  SwapStats stats_;
  const std::shared_ptr<HeldBufferLedger> held_ = std::make_shared<HeldBufferLedger>();
  struct PinnedNeed {
    std::uint64_t of_version = 0;  // of held_, so that it is computed when that has changed
    std::uint64_t bytes = 0;
  };
  mutable PinnedNeed pinned_need_;
  mutable bool advice_is_told_ = false;                             // the caller has asked for it
  std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();  // for everything but reads
  std::shared_ptr<Waiting> stalls_ = waiting_;  // for reads: what callers spend on it is a stall
};

/// What ends at once may be a first put that has failed without a write.
template <class Put>
Ticket SwapEngineCore::or_undeclared(TensorId tensor, Put put) {
  const auto undo = [this, tensor] {
    Locked locked(mutex_, *this);
    undo_declaration(tensor, locked);
  };
  try {
    Ticket ticket = put();
    if (ticket.done()) {
      undo();
    }
    return ticket;
  } catch (const std::bad_alloc&) {
    undo();
    throw;
  }
}

}  // namespace penstock
