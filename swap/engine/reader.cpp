#include "swap/engine/reader.h"

#include <fmt/format.h>

#include <utility>

#include "swap/engine/completion_error.h"
#include "swap/engine/declarations.h"
#include "swap/engine/planner.h"
#include "swap/engine/read_error.h"
#include "swap/log.h"

namespace penstock {

Ticket Reader::get(TensorId tensor, Access access) {
  auto state = std::make_shared<TicketState>(context_.stalls);
  if (const Result<void> planned = planner_.plan_before_use(tensor); planned.has_error()) {
    return Ticket::failed(planned.error());
  }
  Locked locked(context_);
  TensorRecord* const record = table_.record_of(tensor);
  if (record == nullptr || context_.closed) {
    return Ticket::failed(table_.unknown(tensor));
  }
  ++context_.stats.gets;
  note_use(tensor);
  serve(*record, {state, access}, locked);
  locked.run_ahead();
  return Ticket(std::move(state));
}

void Reader::note_use(TensorId tensor) noexcept {
  if_memory_allows([&]() PENSTOCK_NEEDS_LOCK {
    context_.stats.predicted += scheduler_.record(tensor) ? 1U : 0U;
  });
}

/// Gives the content at once, or lines the get up behind what must happen first.
void Reader::serve(TensorRecord& record, WaitingGet get, Locked& locked) noexcept {
  const std::shared_ptr<TicketState> ticket = get.ticket;
  try {
    serve_or_line_up(record, std::move(get), locked);
  } catch (const std::bad_alloc&) {  // it was neither served nor lined up
    locked.fulfil(ticket, out_of_memory());
  }
}

void Reader::serve_or_line_up(TensorRecord& record, WaitingGet get, Locked& locked) {
  if (get.access == Access::kUpdate && record.memory.updates > 0) {
    locked.fulfil(std::move(get.ticket), being_changed(record));
    return;
  }
  if (record.memory.is_current()) {
    serve_current(record, std::move(get), locked);
    return;
  }
  if (record.memory.is_coming()) {
    get.count_as(context_.stats.late);
    memory_.ahead().end(record.id);
    memory_.update_use(record);
    record.gets.for_read.push_back(std::move(get));
    if (record.memory.reading) {
      record.memory.reading->promote();
    }
    return;
  }
  if (record.drive.writes_in_flight > 0) {
    // A put() from the caller's memory: the content is read once it is there.
    record.gets.for_write.push_back(std::move(get));
    return;
  }
  if (!record.drive.stored) {
    locked.fulfil(
        std::move(get.ticket),
        fault(Fault::kInvalidArgument,
              fmt::format("tensor '{}' has no content yet: put it first", record.info->name)));
    return;
  }
  read_on_demand(record, std::move(get), locked);
}

void Reader::read_on_demand(TensorRecord& record, WaitingGet get, Locked& locked) {
  const SwapStore& store = *table_.store_of(record);
  if (Result<void> there = store.check_readable(*record.drive.stored, record.info->name);
      there.has_error()) {
    locked.fulfil(std::move(get.ticket), std::move(there).error());
    return;
  }
  locked.expect_fill();
  get.count_as(context_.stats.misses);
  record.gets.for_read.push_back(std::move(get));
  locked.fill({record.id, record.memory.begin(Presence::kReading)});
  context_.operation_begun();
}

/// Of what is in memory.
void Reader::serve_current(TensorRecord& record, WaitingGet get, Locked& locked) {
  // A holder that changes the content must not change the source of a write in flight.
  if (get.access == Access::kUpdate && record.drive.writes_in_flight > 0) {
    record.gets.for_write.push_back(std::move(get));
    return;
  }
  memory_.ahead().end(record.id);
  if (record.memory.block->updates > 0) {  // in place, and no drive has what was there before
    locked.fulfil(std::move(get.ticket), being_changed(record));
    return;
  }
  if (get.access == Access::kUpdate) {
    lend_to_update(record, std::move(get), locked);
    return;
  }
  Lease lease = memory_.lend(record, EngineMemory::Lent::kToRead);
  count_hit(record, get);
  locked.fulfil(std::move(get.ticket), std::nullopt, std::move(lease));
  memory_.note_peak();
}

void Reader::count_hit(const TensorRecord& record, WaitingGet& get) noexcept {
  get.count_as(memory_.residency().holds(record.id) ? context_.stats.resident_hits
                                                    : context_.stats.hits);
}

/// Gets to read that wait are served. Those to update are given back.
std::vector<WaitingGet> Reader::lend_to_readers(TensorRecord& record, Locked& locked) noexcept {
  std::vector<WaitingGet> waiting = std::exchange(record.gets.for_read, {});
  const auto served = [&](WaitingGet& get) PENSTOCK_NEEDS_LOCK {
    if (get.access == Access::kUpdate) {
      return false;
    }
    Result<Lease> lease = unless_out_of_memory([&]() PENSTOCK_NEEDS_LOCK -> Result<Lease> {
      return memory_.lend(record, EngineMemory::Lent::kToRead);
    });
    if (lease.has_value()) {
      locked.fulfil(std::move(get.ticket), std::nullopt, std::move(*lease));
    } else {
      locked.fulfil(std::move(get.ticket), std::move(lease).error());
    }
    return true;
  };
  std::erase_if(waiting, served);
  return waiting;
}

/// Only its holder sees what it does with the content: what others look at is copied first, and
/// what a drive has is not the tensor's memory any more. Only a resident that is on no drive is
/// lent as it is, and to no other holder meanwhile.
void Reader::lend_to_update(TensorRecord& record, WaitingGet get, Locked& locked) {
  const bool is_shared = record.memory.block->leases > 0 || record.memory.block->copies > 0;
  if (is_shared || (!record.clean() && !changes_in_place(record))) {
    lend_copy(record, std::move(get), locked);
    return;
  }
  Lease lease = memory_.lend(record, EngineMemory::Lent::kToUpdate);
  count_hit(record, get);
  if (record.clean()) {
    memory_.drop(record, locked);
  }
  locked.fulfil(std::move(get.ticket), std::nullopt, std::move(lease));
  memory_.note_peak();
}

bool Reader::changes_in_place(const TensorRecord& record) const {
  return memory_.residency().holds(record.id) && record.memory.block->copies == 0 &&
         (record.clean() || !table_.store_of(record)->is_durable());
}

/// Others look at this content, or no drive took it: a copy goes to the get that will change it.
void Reader::lend_copy(TensorRecord& record, WaitingGet get, Locked& locked) {
  locked.copy({record.id, record.memory.generation, record.memory.block, std::move(get)});
  ++record.memory.block->copies;  // so that it is not changed meanwhile
  context_.operation_begun();
}

void Reader::copy(CopyRequest request) noexcept {
  Result<std::shared_ptr<Block>> copied =
      unless_out_of_memory([&] { return memory_.resident_copy(request.source->span()); });
  Locked locked(context_);
  context_.operation_ended();
  --request.source->copies;
  TensorRecord* const record = table_.record_of(request.tensor);
  const bool is_current =
      record != nullptr && record->memory.is_current() && record->memory.block == request.source &&
      record->memory.generation == request.generation && record->memory.updates == 0;
  locked.drop(std::move(request.source));  // maybe the last hold
  WaitingGet& get = request.get;
  if (is_current) {
    hand_out_copy(*record, std::move(get), std::move(copied), locked);
    return;
  }
  if (copied.has_value()) {
    locked.drop(std::move(copied).value());
  }
  if (record != nullptr) {
    serve(*record, std::move(get), locked);  // what has come meanwhile
  } else {
    locked.fulfil(std::move(get.ticket),
                  said(make_error_code(Fault::kUnknownTensor),
                       [&]() PENSTOCK_NEEDS_LOCK { return table_.unknown(request.tensor); }));
  }
}

void Reader::hand_out_copy(TensorRecord& record, WaitingGet get,
                           Result<std::shared_ptr<Block>> copied, Locked& locked) noexcept {
  Result<Lease> lease = unless_out_of_memory([&]() PENSTOCK_NEEDS_LOCK -> Result<Lease> {
    PENSTOCK_TRY(copied);
    return memory_.lend(*copied, record, EngineMemory::Lent::kToUpdate);
  });
  if (lease.has_value()) {
    count_hit(record, get);
    locked.fulfil(std::move(get.ticket), std::nullopt, std::move(*lease));
    return;
  }
  locked.fulfil(std::move(get.ticket),
                no_memory(record, "copy", "for who changes it", lease.error()));
}

TensorRecord* Reader::wanted(const FillRequest& request) const {
  TensorRecord* const record = table_.record_of(request.tensor);
  const bool is_filling =
      record != nullptr && record->memory.is_coming() && record->memory.fill() == request.fill;
  return is_filling ? record : nullptr;
}

void Reader::fill(const FillRequest& request) noexcept {
  Result<std::shared_ptr<Block>> block = unless_out_of_memory([&] {
    Result<std::shared_ptr<Block>> found = broker_.obtain_now(request.tensor);
    if (found.has_value() && *found) {
      broker_.provide_pages(**found);
    }
    return found;
  });
  if (block.has_value() && !*block) {
    put_off(request);
    return;
  }
  Locked locked(context_);
  TensorRecord* const record = wanted(request);
  if (record != nullptr && block.has_value()) {
    record->memory.block = std::move(block).value();
    const Result<void> started = unless_out_of_memory(
        [&]() PENSTOCK_NEEDS_LOCK { return start(*record, IoPriority::kDemand); });
    if (started.has_value()) {
      return;  // the operation ends with the read
    }
    fail(*record, started.error(), locked);
  } else if (record != nullptr) {
    const Error error = no_memory(*record, "read", "into", block.error());
    log_decision(LogEvent::kRefuse, record->info->name, [&] { return error.message; });
    fail(*record, error, locked);
  } else if (block.has_value()) {
    locked.drop(std::move(block).value());
  }
  context_.operation_ended();
}

void Reader::put_off(FillRequest request) noexcept {
  std::uint64_t bytes = 0;
  {
    Locked locked(context_);
    TensorRecord* const record = wanted(request);
    if (record == nullptr) {
      context_.operation_ended();
      return;
    }
    bytes = record->bytes();
    context_.stats.pool.waits += request.was_put_off ? 0U : 1U;
    request.was_put_off = true;
    const Result<void> lined_up = unless_out_of_memory([&]() PENSTOCK_NEEDS_LOCK -> Result<void> {
      put_off_.push_back(request);
      return {};
    });
    if (lined_up.has_error()) {
      fail(*record, lined_up.error(), locked);
      context_.operation_ended();
      return;
    }
    // The request's own may end from now on, and with a close() the pool goes.
    context_.operation_begun();
  }
  // A slot may come back after the call that gives it up has looked for requests: a closure of
  // another thread held it, or a new lease keeps it. Each such change is one more look.
  memory_.pool()->watch();
  if (!broker_.would_wait(bytes)) {
    fill_put_off();
  }
  const BriefLock lock(context_);
  context_.operation_ended();
}

void Reader::fill_put_off() noexcept {
  std::vector<FillRequest> requests;
  {
    const BriefLock lock(context_);
    requests.swap(put_off_);
  }
  for (const FillRequest& request : requests) {
    fill(request);
  }
}

HostTransfer::Place Reader::place_of(const SwapStore& store, const StoredTensor& stored,
                                     std::shared_ptr<const TensorInfo> info) const {
  return {context_.queue.get(), memory_.pool(), memory_.sources().transfers,
          &store.file(stored),  stored,         std::move(info)};
}

Result<void> Reader::start(TensorRecord& record, IoPriority priority) {
  const std::shared_ptr<SwapStore>& store = table_.store_of(record);
  // Memory, extent and store live until the last completion has been seen.
  Result<std::shared_ptr<HostTransfer>> transfer = HostTransfer::of_read(
      place_of(*store, *record.drive.stored, record.info), record.memory.block->span(), priority,
      [this, engine = context_.hold(), store,
       reading = Reading{{record.id, record.memory.fill()},
                         record.memory.block,
                         record.drive.stored,
                         record.drive.generation}](Result<std::uint64_t> read) mutable {
        finished(std::move(reading), error_of(std::move(read)));
      });
  PENSTOCK_TRY(transfer);
  record.memory.reading = std::move(transfer).value();
  record.memory.reads_ahead = priority == IoPriority::kAhead;
  HostTransfer::start(record.memory.reading);
  return {};
}

void Reader::finished(Reading ended, std::optional<Error> error) noexcept {
  Locked locked(context_);
  context_.stats.tensor_read_bytes += error ? 0 : ended.block->span().size();
  TensorRecord* const record = wanted(ended.request);
  locked.drop(std::move(ended.extent));
  if (record != nullptr && record->memory.block == ended.block) {
    ended.block.reset();  // the last lease gives the memory back: the next get may need it
    if (error ? reads_again(*record, *error) : reads_newer(*record, ended.generation, error)) {
      return;
    }
    if (error) {
      log_decision(LogEvent::kRefuse, record->info->name, [&] { return error->message; });
      fail(*record, *error, locked);
    } else {
      record->memory.reading.reset();
      record->memory.become_current(record->drive.generation);
      std::vector<WaitingGet> updates = lend_to_readers(*record, locked);
      memory_.note_peak();
      serve_again(*record, std::move(updates), locked);
      context_.operation_ended();
      return;  // what has come gives no memory back, so nothing more can be read ahead than before
    }
  }
  locked.drop(std::move(ended.block));
  context_.operation_ended();
  locked.run_ahead();
}

void Reader::fail(TensorRecord& record, const Error& error, Locked& locked) noexcept {
  memory_.drop(record, locked);
  Declarations::fail_reads(record, error, locked);
}

/// A read ahead is a hint. Where it fails, a get that has joined it since is answered by a read of
/// its own, since whatever was wrong may be over.
bool Reader::reads_again(TensorRecord& record, const Error& error) noexcept {
  if (!record.memory.reads_ahead || record.gets.for_read.empty() ||
      unless_out_of_memory([&]() PENSTOCK_NEEDS_LOCK {
        return start(record, IoPriority::kDemand);
      }).has_error()) {
    return false;
  }
  log_decision(LogEvent::kRetry, record.info->name, [&]() PENSTOCK_NEEDS_LOCK {
    return fmt::format("read again, on demand: {}", error.message);
  });
  return true;
}

/// A content that a drive has got since a read of `generation` began is read instead.
bool Reader::reads_newer(TensorRecord& record, std::uint64_t generation,
                         std::optional<Error>& error) noexcept {
  if (record.drive.generation == generation) {
    return false;
  }
  const Result<void> begun = unless_out_of_memory(
      [&]() PENSTOCK_NEEDS_LOCK { return start(record, IoPriority::kDemand); });
  if (begun.has_error()) {
    error = copy_of(begun.error());
  }
  return begun.has_value();
}

void Reader::serve_again(TensorRecord& record, std::vector<WaitingGet> waiting,
                         Locked& locked) noexcept {
  for (WaitingGet& get : waiting) {
    serve(record, std::move(get), locked);
  }
}

}  // namespace penstock
