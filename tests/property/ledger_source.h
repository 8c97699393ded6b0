#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "alloc/memory_source.h"

namespace penstock {

/// A source of addresses without memory behind them, for what only keeps
/// accounts of memory: it knows to the byte what is out, and stops the test
/// where something comes back that is not.
class LedgerSource final : public MemorySource {
 public:
  LedgerSource(bool divisible, std::uint64_t limit_bytes)
      : divisible_(divisible), limit_bytes_(limit_bytes) {}

  Result<Memory> allocate(std::uint64_t bytes) override {
    const Result<std::uint64_t> blocks = whole_blocks(bytes);
    if (!blocks) {
      return blocks.error();
    }
    if (*blocks > limit_bytes_ - out_bytes_) {
      return fault(Fault::kExhausted, "the ledger is full");
    }
    next_ = align_up(next_, *blocks >= kHugePageBytes ? kHugePageBytes : kBlockBytes);
    const std::uint64_t address = next_;
    next_ += *blocks;
    out_[address] = *blocks;
    out_bytes_ += *blocks;
    return Memory(shared_from_this(), reinterpret_cast<std::byte*>(address), *blocks);
  }
  std::string_view name() const noexcept override { return "ledger"; }
  bool divisible() const noexcept override { return divisible_; }

  bool joinable() const noexcept override { return divisible_; }
  Result<Memory> join(std::vector<Memory> pieces, std::uint64_t bytes) override {
    std::uint64_t joined = 0;
    for (const Memory& piece : pieces) {
      PENSTOCK_CHECK(
          is_aligned(piece.data(), kHugePageBytes) && is_aligned(piece.bytes(), kHugePageBytes),
          "a piece of {} bytes is no whole huge pages", piece.bytes());
      joined += piece.bytes();
    }
    PENSTOCK_CHECK(joined <= bytes, "{} bytes are joined to {}", joined, bytes);
    pieces.clear();
    return allocate(bytes);
  }

  std::uint64_t out_bytes() const noexcept { return out_bytes_; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override {
    std::uint64_t address = reinterpret_cast<std::uintptr_t>(data);
    if (!divisible_) {
      const auto piece = out_.find(address);
      PENSTOCK_CHECK(piece != out_.end() && piece->second == bytes, "{} bytes at {} are no piece",
                     bytes, address);
    }
    out_bytes_ -= bytes;
    const std::uint64_t end = address + bytes;
    while (address < end) {
      address = cut(address, end);
    }
  }

 private:
  /// Takes [address, at most end) out of the piece that holds it; returns where
  /// it ended.
  std::uint64_t cut(std::uint64_t address, std::uint64_t end) {
    auto piece = out_.upper_bound(address);
    PENSTOCK_CHECK(piece != out_.begin(), "{} is not out", address);
    --piece;
    const std::uint64_t begin = piece->first;
    const std::uint64_t piece_end = begin + piece->second;
    PENSTOCK_CHECK(address < piece_end, "{} is not out", address);
    out_.erase(piece);
    if (begin < address) {
      out_[begin] = address - begin;
    }
    if (end < piece_end) {
      out_[end] = piece_end - end;
    }
    return std::min(end, piece_end);
  }

  const bool divisible_;
  const std::uint64_t limit_bytes_;
  std::uint64_t next_ = std::uint64_t{1} << 40;
  std::uint64_t out_bytes_ = 0;
  std::map<std::uint64_t, std::uint64_t> out_;  // address -> bytes
};

}  // namespace penstock
