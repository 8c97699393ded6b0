#include "swap/transfer/chunk_pump.h"

#include <algorithm>
#include <utility>

#include "alloc/check.h"

namespace penstock {

/// A thread in one of the pump's calls, with its lock: the pump stays until it has left. What holds
/// the pump itself has to be let go of after that.
class ChunkPump::Visit {
 public:
  explicit Visit(ChunkPump& pump) : pump_(pump), lock_(pump.mutex_) { ++pump_.visits_; }
  ~Visit() {
    --pump_.visits_;
    pump_.over_.notify_all();  // with the lock held: afterwards the pump may be gone
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;

  Lock& lock() noexcept { return lock_; }

 private:
  ChunkPump& pump_;
  Lock lock_;
};

ChunkPump::ChunkPump(std::span<Chunk> chunks) : chunks_(chunks) {
  for (Chunk& chunk : chunks_) {
    chunk.pump = this;
  }
}

ChunkPump::~ChunkPump() {
  Lock lock(mutex_);
  over_.wait(lock, [this] { return !first_ && visits_ == 0; });
}

void ChunkPump::move(std::shared_ptr<Transfer> transfer, std::uint64_t begin, std::size_t others) {
  PENSTOCK_CHECK(begin < transfer->layout_bytes_ || others > 0, "{} bytes, and nothing to move",
                 transfer->layout_bytes_);
  Visit visit(*this);
  transfer->next_offset_ = begin;
  transfer->passed_bytes_ = begin;
  transfer->users_ = others;
  std::shared_ptr<Transfer>* end = &first_;
  while (*end) {
    end = &(*end)->next_;
  }
  *end = std::move(transfer);
  give_chunks(visit.lock());
}

void ChunkPump::let_go(std::shared_ptr<Transfer> transfer, std::optional<Error> error) {
  Visit visit(*this);
  if (error && !transfer->error_) {
    transfer->error_ = std::move(error);
    pass_in_order(*transfer, visit.lock());
  }
  end_use(*transfer, visit.lock());
}

void ChunkPump::arrived(Chunk& chunk) noexcept {
  const std::shared_ptr<Transfer> transfer = chunk.transfer;
  Visit visit(*this);
  chunk.has_arrived = true;
  pass_in_order(*transfer, visit.lock());
}

void ChunkPump::left(Chunk& chunk, std::optional<Error> error) noexcept {
  const std::shared_ptr<Transfer> transfer = chunk.transfer;
  Visit visit(*this);
  chunk.transfer.reset();
  if (error && !transfer->error_) {
    transfer->error_ = std::move(error);
    pass_in_order(*transfer, visit.lock());
  }
  end_use(*transfer, visit.lock());
}

void ChunkPump::look_again() noexcept {
  Visit visit(*this);
  give_chunks(visit.lock());
}

void ChunkPump::stop(Transfer& transfer, Error why) noexcept {
  Visit visit(*this);
  ++transfer.users_;
  if (!transfer.error_) {
    transfer.error_ = std::move(why);
  }
  pass_in_order(transfer, visit.lock());
  end_use(transfer, visit.lock());
}

/// One thread at a time: what becomes free meanwhile, it sees. So a part that goes through all its
/// steps at once does not begin the next one from within.
void ChunkPump::give_chunks(Lock& lock) noexcept {
  if (std::exchange(giving_, true)) {
    return;
  }
  while (Chunk* const chunk = give_chunk()) {
    const std::shared_ptr<Transfer> transfer = chunk->transfer;
    lock.unlock();
    transfer->fetch(*chunk);
    lock.lock();
  }
  giving_ = false;
}

Chunk* ChunkPump::give_chunk() noexcept {
  for (const std::shared_ptr<Transfer>* link = &first_; *link; link = &(*link)->next_) {
    Transfer& transfer = **link;
    const std::uint64_t offset = transfer.next_offset_;
    if (transfer.error_ || offset == transfer.layout_bytes_) {
      continue;
    }
    const auto free = std::ranges::find_if(chunks_, [offset](const Chunk& chunk) {
      return chunk.transfer == nullptr && chunk.lies_at.value_or(offset) == offset;
    });
    if (free == chunks_.end()) {
      return nullptr;
    }
    const std::uint64_t bytes =
        transfer.part_bytes(free->memory.size(), transfer.layout_bytes_ - offset);
    if (bytes > 0) {
      free->transfer = *link;
      free->offset = offset;
      free->bytes = bytes;
      free->has_arrived = false;
      transfer.next_offset_ += bytes;
      ++transfer.users_;
      return &*free;
    }
  }
  return nullptr;
}

/// Parts arrive in any order, a checksum wants theirs. Of a transfer that has failed, they leave.
void ChunkPump::pass_in_order(Transfer& transfer, Lock& lock) noexcept {
  if (std::exchange(transfer.passing_, true)) {
    return;  // the thread that does it sees what has come
  }
  ++transfer.users_;
  while (Chunk* const chunk = next_in_order(transfer)) {
    chunk->has_arrived = false;
    if (!transfer.error_) {
      lock.unlock();
      std::optional<Error> error = transfer.pass(*chunk);
      lock.lock();
      transfer.passed_bytes_ += chunk->bytes;
      if (!transfer.error_) {
        transfer.error_ = std::move(error);
      }
    }
    if (transfer.error_) {
      chunk->transfer.reset();
      --transfer.users_;
      continue;
    }
    lock.unlock();
    transfer.deliver(*chunk);
    lock.lock();
  }
  transfer.passing_ = false;
  end_use(transfer, lock);
}

Chunk* ChunkPump::next_in_order(const Transfer& transfer) const noexcept {
  const auto found = std::ranges::find_if(chunks_, [&transfer](const Chunk& chunk) {
    return chunk.transfer.get() == &transfer && chunk.has_arrived &&
           (transfer.error_ || chunk.offset == transfer.passed_bytes_);
  });
  return found == chunks_.end() ? nullptr : &*found;
}

void ChunkPump::end_use(Transfer& transfer, Lock& lock) noexcept {
  PENSTOCK_CHECK(transfer.users_ > 0, "a transfer is let go of once too often ({} bytes)",
                 transfer.layout_bytes_);
  --transfer.users_;
  if (transfer.users_ == 0 &&
      (transfer.error_ || transfer.next_offset_ == transfer.layout_bytes_)) {
    unlink(transfer);
    give_chunks(lock);
    lock.unlock();
    transfer.over();
    lock.lock();
  } else {
    give_chunks(lock);
  }
}

void ChunkPump::unlink(const Transfer& transfer) noexcept {
  std::shared_ptr<Transfer>* link = &first_;
  while (link->get() != &transfer) {
    link = &(*link)->next_;
  }
  *link = std::move((*link)->next_);
}

}  // namespace penstock
