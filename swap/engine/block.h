#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "alloc/buffer.h"
#include "alloc/memory_source.h"
#include "swap/engine/engine_lock.h"
#include "swap/engine/held_buffer_ledger.h"

namespace penstock {

/// What pageable memory beyond the pool is used for at the moment.
enum class OverflowUse : std::uint8_t { kHeld, kAhead, kBehind };

/// The memory of one content of one tensor: a buffer of the pool, or memory of its own for a
/// resident. Shared by the engine, by leases and by transfers in flight; freed with the last of
/// them.
struct Block {
  Block(Buffer from_pool, std::uint64_t tensor_bytes)
      : buffer(std::move(from_pool)), bytes(tensor_bytes) {}
  Block(Memory own, std::uint64_t tensor_bytes)
      : resident_memory(std::move(own)), bytes(tensor_bytes) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::byte* data() const noexcept { return buffer ? buffer.data() : resident_memory.data(); }
  std::span<std::byte> span() const noexcept { return {data(), static_cast<std::size_t>(bytes)}; }
  /// Not in a slot, which is for what passes through: a resident may stay here.
  bool may_stay() const noexcept { return !buffer || overflows(); }
  bool overflows() const noexcept { return buffer && buffer.kind() == BufferKind::kOverflow; }

  Buffer buffer;
  Memory resident_memory;
  std::uint64_t bytes;
  std::uint32_t leases PENSTOCK_GUARDED = 0;
  std::uint32_t updates PENSTOCK_GUARDED = 0;  // those of them that may change the content
  std::uint32_t copies PENSTOCK_GUARDED = 0;   // being made of it without the lock
  OverflowUse counted_as PENSTOCK_GUARDED = OverflowUse::kHeld;
  bool precedes_plan = false;  // pageable for want of a plan, not of pinned memory
  HeldBufferLedger::Entry held PENSTOCK_GUARDED;  // while callers hold it
};

}  // namespace penstock
