#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "alloc/result.h"
#include "swap/transfer/chunk.h"

namespace penstock {

/// Bytes on their way from a source to a target through the chunks of a ChunkPump, which takes each
/// part through these steps: fetch() from the source; pass() in the order of the layout; deliver()
/// to the target. fetch() and deliver() begin something that ends, at once or later and on any
/// thread, in one of the pump's calls.
class Transfer {
 public:
  virtual ~Transfer() = default;
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

 protected:
  explicit Transfer(std::uint64_t layout_bytes) : layout_bytes_(layout_bytes) {}

  /// How many bytes of the layout, of which `left` are left, the next part has in a chunk of
  /// `chunk_bytes`; 0: none can begin now. With the pump's lock.
  virtual std::uint64_t part_bytes(std::uint64_t chunk_bytes, std::uint64_t left) noexcept = 0;
  /// Ends in ChunkPump::arrived(), or left() with an error.
  virtual void fetch(Chunk& chunk) noexcept = 0;
  /// What is wrong with the part, if anything. By one thread at a time.
  virtual std::optional<Error> pass(Chunk& chunk) noexcept = 0;
  /// Ends in ChunkPump::left().
  virtual void deliver(Chunk& chunk) noexcept = 0;
  /// All parts have left, or what had begun when the first error came has ended. Without a lock.
  virtual void over() noexcept = 0;

  /// The first one. With the pump's lock, or in over().
  const std::optional<Error>& error() const noexcept { return error_; }
  std::uint64_t layout_bytes() const noexcept { return layout_bytes_; }

 private:
  friend class ChunkPump;

  // The pump's, with its lock.
  const std::uint64_t layout_bytes_;
  std::uint64_t next_offset_ = 0;   // what no chunk has taken yet
  std::uint64_t passed_bytes_ = 0;  // the layout up to which all parts have passed
  std::size_t users_ = 0;           // chunks under way, and threads that see to it
  bool passing_ = false;            // a thread takes parts through pass()
  std::optional<Error> error_;      // the first one
  std::shared_ptr<Transfer> next_;  // asked for later
};

}  // namespace penstock
