#include "swap/transfer/direct_lane.h"

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"

namespace penstock {
namespace {

// Blocking transfers: as many as keep a drive busy, each large enough not to count.
constexpr std::size_t kThreads = 4;
constexpr std::uint64_t kPieceBytes = 8 * kMiB;

}  // namespace

DirectLane::DirectLane(std::shared_ptr<DirectStorage> storage) : storage_(std::move(storage)) {
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

DirectLane::~DirectLane() {
  {
    const Lock lock(mutex_);
    ending_ = true;
  }
  asked_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

bool DirectLane::on_thread() const noexcept {
  return std::ranges::any_of(threads_, [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

void DirectLane::move(DirectOp& op) {
  {
    const std::lock_guard lock(registering_);
    ++files_[op.file->fd()].transfers;
  }
  op.error.reset();
  op.begun_bytes = 0;
  op.pieces_under_way = 0;
  op.next = nullptr;
  const Lock lock(mutex_);
  DirectOp** end = &first_;
  while (*end != nullptr) {
    end = &(*end)->next;
  }
  *end = &op;
  asked_.notify_all();  // with the lock held: when the transfer is done the lane may be gone
}

void DirectLane::work() {
  Lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return ending_ || first_ != nullptr; });
    if (first_ == nullptr) {
      return;
    }
    const Piece piece = take_piece();
    lock.unlock();
    Result<void> moved = move(piece);
    lock.lock();
    finished(piece, std::move(moved), lock);
  }
}

DirectLane::Piece DirectLane::take_piece() {
  DirectOp& op = *first_;
  const Piece piece{&op, op.begun_bytes, std::min(kPieceBytes, op.memory.bytes - op.begun_bytes)};
  op.begun_bytes += piece.bytes;
  ++op.pieces_under_way;
  if (op.begun_bytes == op.memory.bytes) {
    first_ = op.next;
  }
  return piece;
}

void DirectLane::unlink(const DirectOp& op) {
  for (DirectOp** link = &first_; *link != nullptr; link = &(*link)->next) {
    if (*link == &op) {
      *link = op.next;
      return;
    }
  }
}

Result<void> DirectLane::move(const Piece& piece) {
  const DirectOp& op = *piece.op;
  const Result<const DirectFile*> file = registered(*op.file);
  PENSTOCK_TRY(file);
  const DeviceSpan memory = op.memory.part(piece.begin, piece.bytes);
  const std::uint64_t offset = op.offset + piece.begin;
  return op.direction == DeviceDirection::kToDevice ? storage_->read(**file, offset, memory)
                                                    : storage_->write(**file, offset, memory);
}

/// After the first error no piece begins.
void DirectLane::finished(const Piece& piece, Result<void> moved, Lock& lock) {
  DirectOp& op = *piece.op;
  --op.pieces_under_way;
  if (moved.has_error() && !op.error) {
    op.error = std::move(moved).error();
    op.begun_bytes = op.memory.bytes;
    unlink(op);
  }
  if (op.pieces_under_way == 0 && op.begun_bytes == op.memory.bytes) {
    lock.unlock();
    leave(*op.file);
    op.on_complete(op);
    lock.lock();
  }
}

Result<const DirectFile*> DirectLane::registered(const File& file) {
  const std::lock_guard lock(registering_);
  UsedFile& used = files_.at(file.fd());
  if (!used.file) {
    Result<DirectFile> added = storage_->register_file(file.fd(), file.path());
    PENSTOCK_TRY(added);
    used.file = std::move(*added);
  }
  return &*used.file;
}

void DirectLane::leave(const File& file) {
  const std::lock_guard lock(registering_);
  const auto used = files_.find(file.fd());
  if (--used->second.transfers == 0) {
    files_.erase(used);
  }
}

}  // namespace penstock
