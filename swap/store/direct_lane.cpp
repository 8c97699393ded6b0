#include "swap/store/direct_lane.h"

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

void DirectLane::move(Direction direction, const File& file, std::uint64_t offset,
                      DeviceSpan memory, Done done) {
  auto transfer =
      std::make_shared<Transfer>(Transfer{direction, &file, offset, memory, std::move(done)});
  {
    const std::lock_guard lock(registering_);
    ++files_[file.fd()].transfers;
  }
  const Lock lock(mutex_);
  for (std::uint64_t begin = 0; begin < memory.bytes; begin += kPieceBytes) {
    pieces_.push_back({transfer, begin, std::min(kPieceBytes, memory.bytes - begin)});
    ++transfer->pieces_left;
  }
  asked_.notify_all();  // with the lock held: when the transfer is done the lane may be gone
}

void DirectLane::work() {
  Lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [this] { return ending_ || !pieces_.empty(); });
    if (pieces_.empty()) {
      return;
    }
    const Piece piece = std::move(pieces_.front());
    pieces_.pop_front();
    const bool failed = piece.transfer->error.has_value();
    lock.unlock();
    Result<void> moved = failed ? Result<void>() : move(piece);
    lock.lock();
    finished(piece, std::move(moved), lock);
  }
}

Result<void> DirectLane::move(const Piece& piece) {
  const Transfer& transfer = *piece.transfer;
  const Result<const DirectFile*> file = registered(*transfer.file);
  PENSTOCK_TRY(file);
  const DeviceSpan memory = transfer.memory.part(piece.begin, piece.bytes);
  const std::uint64_t offset = transfer.offset + piece.begin;
  return transfer.direction == Direction::kToDevice ? storage_->read(**file, offset, memory)
                                                    : storage_->write(**file, offset, memory);
}

void DirectLane::finished(const Piece& piece, Result<void> moved, Lock& lock) {
  Transfer& transfer = *piece.transfer;
  if (moved.has_error() && !transfer.error) {
    transfer.error = std::move(moved).error();
  }
  if (--transfer.pieces_left == 0) {
    lock.unlock();
    leave(*transfer.file);
    transfer.done(std::move(transfer.error));
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
