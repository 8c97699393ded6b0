#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "alloc/result.h"
#include "alloc/waiting.h"
#include "io/io_queue.h"
#include "swap/transfer/chunk_memory.h"
#include "swap/transfer/chunk_pump.h"
#include "swap/transfer/transfer.h"

namespace penstock {

/// A transfer between files and one thread, the caller's, that has a chunk at a time to empty or to
/// fill: what streams have in common. It goes on until stop(). Allocates nothing once it is made.
class StreamTransfer : public Transfer {
 public:
  /// Nothing more begins; waits for what is under way. The caller has no chunk any more.
  void stop();

 protected:
  StreamTransfer(IoQueue& queue, std::unique_ptr<ChunkMemory> memory);

  /// Moves `bytes` between the front of the chunk and [offset, …) of `file`. Ends in io_ended().
  void begin_io(Chunk& chunk, IoKind kind, const File& file, std::uint64_t offset,
                std::uint64_t bytes);
  virtual void io_ended(Chunk& chunk) noexcept = 0;
  /// Why it did not succeed: errno, path and offset.
  static std::optional<Error> io_error(const Chunk& chunk);

  /// The chunk waits for the caller.
  void hand_out(Chunk& chunk) noexcept;
  /// Waits for the next chunk that was handed out.
  Chunk& take();
  /// Waits until `ready()`, which is called with mutex().
  template <class Ready>
  void wait(Ready ready) {
    std::unique_lock lock(mutex_);
    waiting_.wait(lock, changed_, std::move(ready));
  }
  void changed() noexcept { changed_.notify_all(); }
  std::mutex& mutex() noexcept { return mutex_; }

  std::optional<Error> pass(Chunk& /*chunk*/) noexcept override { return std::nullopt; }
  void over() noexcept override;

  ChunkMemory& memory() noexcept { return *memory_; }
  ChunkPump& pump() noexcept { return pump_; }

 private:
  IoQueue& queue_;
  Waiting waiting_;
  std::mutex mutex_;  // comes after the pump's
  std::condition_variable changed_;
  std::vector<Chunk*> handed_out_;  // and not taken, in order; guarded by mutex_, as is
  bool is_over_ = false;
  std::unique_ptr<ChunkMemory> memory_;
  ChunkPump pump_;
};

}  // namespace penstock
