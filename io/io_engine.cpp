#include "io/io_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {
namespace {

constexpr std::uint32_t kDepthMax = 1024;
constexpr std::uint64_t kBlockBytesMax = kGiB;  // the kernel moves at most 2 GiB - 4 KiB at once
constexpr std::uint64_t kBackgroundBytesMax = 32 * kMiB;  // some 8 ms of a drive of 4 GB/s

}  // namespace

Result<void> check_options(const IoEngineOptions& options) {
  if (options.block_bytes == 0 || options.block_bytes > kBlockBytesMax ||
      !is_aligned(options.block_bytes, kBlockBytes)) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("a block of {} bytes is no multiple of 4 KiB up to 1 GiB",
                             options.block_bytes));
  }
  if (options.depth == 0 || options.depth > kDepthMax) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("a depth of {} is not within 1..{}", options.depth, kDepthMax));
  }
  return {};
}

IoEngine::IoEngine(const IoEngineOptions& options) : options_(options), pieces_(options.depth) {
  free_pieces_.reserve(pieces_.size());
  again_.reserve(pieces_.size());
  for (std::uint32_t index = options.depth; index-- != 0;) {
    pieces_[index].index = index;
    free_pieces_.push_back(index);
  }
}

IoEngine::~IoEngine() {
  PENSTOCK_CHECK(in_flight_ == 0 && idle(), "{} requests in flight, {} operations unfinished",
                 in_flight_, unfinished_ops_);
}

// --- What callers say ---------------------------------------------------------------------------

void IoEngine::submit(IoOp& op) {
  PENSTOCK_CHECK((op.state == IoOp::State::kIdle || op.state == IoOp::State::kDone) &&
                     op.place == IoOp::Place::kNowhere,
                 "operation submitted twice, state {}", static_cast<int>(op.state));
  PENSTOCK_CHECK(op.file != nullptr && op.on_complete != nullptr,
                 "operation without file {} or end", fmt::ptr(op.file));
  op.error = 0;
  op.error_offset = 0;
  op.issued_bytes = 0;
  op.done_bytes = 0;
  op.pieces_in_flight = 0;
  op.state = IoOp::State::kQueued;
  ++unfinished_ops_;
  const bool cancelled = draining_ || op.cancelled.load(std::memory_order_acquire);
  if (cancelled) {
    fail(op, ECANCELED, op.offset);
  }
  if (cancelled || op.bytes == 0) {
    finish_op_if_over(op);
    return;
  }
  constexpr std::array kPlaces = {IoOp::Place::kDemand, IoOp::Place::kAhead, IoOp::Place::kBehind};
  const bool urgent = op.urgent.load(std::memory_order_acquire);
  push(urgent ? IoOp::Place::kDemand : kPlaces[static_cast<std::size_t>(op.priority)], op);
}

void IoEngine::promote_urgent() {
  for (const IoOp::Place place : {IoOp::Place::kAhead, IoOp::Place::kBehind}) {
    for (IoOp* op = queue_of(place).first; op != nullptr;) {
      IoOp* const next = op->next;
      if (op->urgent.load(std::memory_order_acquire)) {
        unlink(*op);
        push(IoOp::Place::kDemand, *op);
      }
      op = next;
    }
  }
}

void IoEngine::cancel(IoOp& op) {
  end_early(op, ECANCELED);
}

void IoEngine::cancel_flagged() {
  for_each_unfinished([this](IoOp& op) {
    if (op.cancelled.load(std::memory_order_acquire)) {
      end_early(op, ECANCELED);
    }
  });
}

IoOp::TimePoint IoEngine::expire(IoOp::TimePoint now) {
  IoOp::TimePoint next = IoOp::kNoDeadline;
  for_each_unfinished([this, now, &next](IoOp& op) {
    if (op.deadline <= now) {
      end_early(op, ETIMEDOUT);
    } else {
      next = std::min(next, op.deadline);
    }
  });
  return next;
}

// What has failed already stays what it was.
void IoEngine::end_early(IoOp& op, int error) {
  const bool submitted = op.state == IoOp::State::kQueued || op.state == IoOp::State::kInFlight;
  if (submitted && op.place != IoOp::Place::kFinished && op.error == 0) {
    fail(op, error, op.offset);
    finish_op_if_over(op);
  }
}

// Twice where a part is issued and a part is not. `function` may end the operation.
template <class Function>
void IoEngine::for_each_unfinished(Function function) {
  for (Queue& queue : queues_) {
    for (IoOp* op = queue.first; op != nullptr;) {
      IoOp* const next = op->next;
      function(*op);
      op = next;
    }
  }
  for (const Piece& piece : pieces_) {
    if (piece.op != nullptr) {
      function(*piece.op);
    }
  }
}

std::size_t IoEngine::poll() {
  advance();
  return deliver();
}

void IoEngine::advance() {
  no_room_ = false;
  collect(false);
  issue_queued();
}

std::size_t IoEngine::deliver() {
  std::size_t delivered = 0;
  while (true) {
    while (IoOp* const op = finished_.first) {
      unlink(*op);
      op->state = IoOp::State::kDone;
      op->urgent.store(false, std::memory_order_relaxed);
      ++delivered;
      op->on_complete(*op);
    }
    // Callbacks may have submitted more. With nothing in flight no later result would issue it.
    if (!can_issue()) {
      return delivered;
    }
    issue_queued();
  }
}

bool IoEngine::wait() {
  if (in_flight_ == 0) {
    return false;
  }
  collect(true);
  return true;
}

Result<void> IoEngine::register_memory(std::span<std::byte> /*memory*/) {
  return {};
}

void IoEngine::unregister_memory(std::span<std::byte> /*memory*/) {}

void IoEngine::drain() noexcept {
  draining_ = true;
  for (Queue& queue : queues_) {
    while (queue.first != nullptr) {
      cancel(*queue.first);
    }
  }
  while (in_flight_ != 0 || !again_.empty()) {
    while (!again_.empty()) {
      cancel(*pieces_[again_.back()].op);
    }
    if (in_flight_ != 0) {
      collect(true);
    }
  }
  deliver();
}

// --- Issuing ------------------------------------------------------------------------------------

void IoEngine::issue_queued() {
  bool issued_any = issue_again();
  while (!no_room_ && !free_pieces_.empty()) {
    IoOp* const op = next_op();
    if (op == nullptr) {
      break;
    }
    const std::uint32_t index = cut_piece(*op);
    if (issue_piece(index)) {
      issued_any = true;
    } else {
      again_.push_back(index);
    }
  }
  if (issued_any) {
    kick();
  }
}

bool IoEngine::can_issue() const noexcept {
  return !no_room_ && (!again_.empty() || (!free_pieces_.empty() && next_op() != nullptr));
}

IoOp* IoEngine::next_op() const noexcept {
  const auto first_of = [&](IoPriority priority) {
    return queues_[static_cast<std::size_t>(priority)].first;
  };
  if (IoOp* const demand = first_of(IoPriority::kDemand); demand != nullptr) {
    return demand;
  }
  if (piece_bytes_ >= kBackgroundBytesMax) {
    return nullptr;
  }
  IoOp* const ahead = first_of(IoPriority::kAhead);
  IoOp* const behind = first_of(IoPriority::kBehind);
  if (ahead == nullptr || (behind_turn_ && behind != nullptr)) {
    return behind;
  }
  return ahead;
}

// What was begun goes before what was not: the rest of a short transfer completes an operation.
bool IoEngine::issue_again() {
  std::size_t issued = 0;
  while (issued < again_.size() && issue_piece(again_[issued])) {
    ++issued;
  }
  again_.erase(again_.begin(), again_.begin() + static_cast<std::ptrdiff_t>(issued));
  return issued != 0;
}

std::uint32_t IoEngine::cut_piece(IoOp& op) noexcept {
  const std::uint32_t index = free_pieces_.back();
  free_pieces_.pop_back();
  Piece& piece = pieces_[index];
  piece.op = &op;
  piece.data = op.data + op.issued_bytes;
  piece.offset = op.offset + op.issued_bytes;
  piece.bytes = static_cast<std::uint32_t>(
      std::min({std::uint64_t{options_.block_bytes}, request_bytes_max(piece.data),
                op.bytes - op.issued_bytes}));
  piece.stalled = false;
  piece_bytes_ += piece.bytes;
  op.issued_bytes += piece.bytes;
  ++op.pieces_in_flight;
  op.state = IoOp::State::kInFlight;
  if (op.place != IoOp::Place::kDemand) {
    behind_turn_ = op.place == IoOp::Place::kAhead;
  }
  if (op.issued_bytes == op.bytes) {
    unlink(op);
  }
  return index;
}

bool IoEngine::issue_piece(std::uint32_t piece_index) {
  no_room_ = !issue(pieces_[piece_index]);
  if (no_room_) {
    return false;
  }
  if (in_flight_++ == 0) {
    busy_since_ = now();
  }
  ++stats_.requests;
  return true;
}

// --- Lists --------------------------------------------------------------------------------------

IoEngine::Queue& IoEngine::queue_of(IoOp::Place place) noexcept {
  if (place == IoOp::Place::kFinished) {
    return finished_;
  }
  static_assert(static_cast<int>(IoOp::Place::kDemand) == 1);
  return queues_[static_cast<std::size_t>(place) - 1];
}

void IoEngine::push(IoOp::Place place, IoOp& op) noexcept {
  Queue& queue = queue_of(place);
  op.place = place;
  op.previous = queue.last;
  op.next = nullptr;
  (queue.last == nullptr ? queue.first : queue.last->next) = &op;
  queue.last = &op;
}

void IoEngine::unlink(IoOp& op) noexcept {
  Queue& queue = queue_of(op.place);
  (op.previous == nullptr ? queue.first : op.previous->next) = op.next;
  (op.next == nullptr ? queue.last : op.next->previous) = op.previous;
  op.previous = nullptr;
  op.next = nullptr;
  op.place = IoOp::Place::kNowhere;
}

}  // namespace penstock
