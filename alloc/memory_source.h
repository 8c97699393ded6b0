#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/result.h"

namespace penstock {

class MemorySource;

/// One contiguous piece of memory; owns it and gives it back to its source when destroyed.
/// Holds the source alive. Move-only: two owners would free one mapping twice.
class Memory {
 public:
  Memory() = default;
  Memory(std::shared_ptr<MemorySource> source, std::byte* data, std::uint64_t bytes)
      : source_(std::move(source)), data_(data), bytes_(bytes) {}
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    Memory(std::move(other)).swap(*this);
    return *this;
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  std::byte* data() const noexcept { return data_; }
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::span<std::byte> span() const noexcept { return {data_, static_cast<std::size_t>(bytes_)}; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Lets go without giving back: for sources that wrap another and rebuild the upstream's handle
  /// from its parts, `Memory(upstream, data, bytes)`, when their own comes back.
  std::span<std::byte> detach() noexcept {
    const std::span<std::byte> parts = span();
    data_ = nullptr;
    bytes_ = 0;
    source_.reset();
    return parts;
  }
  void swap(Memory& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

 private:
  std::shared_ptr<MemorySource> source_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Where memory comes from. Sources wrap one another: each adds one behaviour (pin, limit,
/// recycle). Contract, proved for every source by tests/alloc/memory_source_contract.h:
///  - allocate(n) gives at least n bytes (`bytes()` says how many), zeroed or not, aligned to 4
///  KiB,
///    and to 2 MiB from 2 MiB on;
///  - 0 bytes are an error (Fault::kInvalidArgument); exhaustion is an error, never an exception;
///  - all members may be called from any thread.
class MemorySource : public std::enable_shared_from_this<MemorySource> {
 public:
  virtual ~MemorySource() = default;
  MemorySource() = default;
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;

  virtual Result<Memory> allocate(std::uint64_t bytes) = 0;
  virtual std::string_view name() const noexcept = 0;
  /// Whether what allocate() gave may be given back in parts of whole pages, and parts that lie
  /// side by side as one.
  virtual bool divisible() const noexcept { return false; }
  /// Whether join() works.
  virtual bool joinable() const noexcept { return false; }
  /// allocate(bytes) with the pages of `pieces` at the begin of it, moved and not copied; only the
  /// rest is fresh. Pieces: whole huge pages (2 MiB) that this source gave, `bytes` together at
  /// most. They are gone afterwards, also where it fails.
  virtual Result<Memory> join(std::vector<Memory> pieces, std::uint64_t bytes);

 protected:
  friend class Memory;
  /// Takes back what allocate() gave: exactly that, unless the source is divisible.
  virtual void release(std::byte* data, std::uint64_t bytes) noexcept = 0;

  /// `bytes` rounded up to 4 KiB. Errors: 0, and more than any address space holds.
  static Result<std::uint64_t> whole_blocks(std::uint64_t bytes);
};

inline Memory::~Memory() {
  if (data_ != nullptr) {
    source_->release(data_, bytes_);
  }
}

}  // namespace penstock
