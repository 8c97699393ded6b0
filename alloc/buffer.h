#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace penstock {

struct BufferPoolState;
struct BufferSlot;

/// Which rung of the pool's ladder a buffer came from.
enum class BufferKind : std::uint8_t {
  kSlot,       ///< a slot of a size class, pinned
  kDedicated,  ///< a buffer of its own, pinned
  kOverflow,   ///< pageable memory beyond the pool
};

/// A lease of memory from a BufferPool; gives it back when destroyed, from any thread. Move-only.
/// Holds the pool's memory alive, so that it may outlive the pool's owner.
/// Giving back a dedicated or overflow buffer, or the last slot of an arena that a new plan
/// dropped, frees memory and calls the hooks of the pool's sources: hold no lock that these take.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const noexcept { return data_; }
  /// Bytes asked for.
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// Bytes there; at least bytes() rounded up to 4 KiB.
  std::uint64_t capacity() const noexcept { return capacity_; }
  std::span<std::byte> span() const noexcept { return {data_, static_cast<std::size_t>(bytes_)}; }
  BufferKind kind() const noexcept { return kind_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

  /// Says that an operation in flight will return this buffer without a call from outside, so that
  /// other threads may wait for it. expect_no_return() and the destructor withdraw it. Has no
  /// effect on an empty buffer or one that is not a slot: no thread waits for those.
  void expect_return() noexcept;
  void expect_no_return() noexcept;

 private:
  friend struct BufferPoolState;
  void swap(Buffer& other) noexcept;

  std::shared_ptr<BufferPoolState> state_;
  BufferSlot* slot_ = nullptr;  // lives in state_ until it is given back
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t capacity_ = 0;
  BufferKind kind_ = BufferKind::kOverflow;
};

}  // namespace penstock
