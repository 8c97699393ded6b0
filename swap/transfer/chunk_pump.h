#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "alloc/result.h"
#include "swap/transfer/chunk.h"
#include "swap/transfer/transfer.h"

namespace penstock {

/// Moves transfers through a few chunks, in the order of asking, the next one's first parts beside
/// the last ones of the one before. A chunk is used again as soon as its part has left. Allocates
/// nothing. Thread-safe.
class ChunkPump {
 public:
  /// `chunks` outlive this.
  explicit ChunkPump(std::span<Chunk> chunks);
  /// Waits for every transfer.
  ~ChunkPump();
  ChunkPump(const ChunkPump&) = delete;
  ChunkPump& operator=(const ChunkPump&) = delete;

  /// Moves `transfer`, from `begin` of its layout on: what lies before takes another way, and the
  /// transfer is over when each of `others` such ways has called let_go(), too. over() runs where
  /// the last part ends: in this call only if a part ends within it.
  void move(std::shared_ptr<Transfer> transfer, std::uint64_t begin = 0, std::size_t others = 0);
  void let_go(std::shared_ptr<Transfer> transfer, std::optional<Error> error);

  /// fetch() has filled the chunk.
  void arrived(Chunk& chunk) noexcept;
  /// The part has left the chunk, or `error` says why it cannot go on.
  void left(Chunk& chunk, std::optional<Error> error = std::nullopt) noexcept;

  /// A transfer whose part_bytes() was 0 may have more now.
  void look_again() noexcept;
  /// Nothing more of `transfer` begins; parts that have not passed are dropped.
  void stop(Transfer& transfer, Error why) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  class Visit;

  void give_chunks(Lock& lock) noexcept;
  Chunk* give_chunk() noexcept;
  void pass_in_order(Transfer& transfer, Lock& lock) noexcept;
  Chunk* next_in_order(const Transfer& transfer) const noexcept;
  void end_use(Transfer& transfer, Lock& lock) noexcept;
  void unlink(const Transfer& transfer) noexcept;

  std::span<Chunk> chunks_;
  std::mutex mutex_;
  std::condition_variable over_;
  std::shared_ptr<Transfer> first_;  // linked by Transfer::next_, in the order of asking
  std::size_t visits_ = 0;           // threads in a call of this object
  bool giving_ = false;              // one of them gives chunks to transfers
};

}  // namespace penstock
