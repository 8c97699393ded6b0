#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "alloc/mutex.h"
#include "swap/plan/pinned_need.h"

namespace penstock {

/// What callers hold of the pool's buffers, pinned and pageable, now and at most so far: what
/// max_pinned_bytes would have to be. Thread-safe; its lock is taken last and held briefly.
class HeldBufferLedger : public std::enable_shared_from_this<HeldBufferLedger> {
 public:
  /// One buffer that callers hold, from hold() to its end. Move-only.
  class Entry {
   public:
    Entry() = default;
    Entry(Entry&& other) noexcept { swap(other); }
    Entry& operator=(Entry&& other) noexcept {
      Entry(std::move(other)).swap(*this);
      return *this;
    }
    ~Entry() {
      if (ledger_) {
        ledger_->end(bytes_, pageable_);
      }
    }
    explicit operator bool() const noexcept { return ledger_ != nullptr; }

   private:
    friend class HeldBufferLedger;
    void swap(Entry& other) noexcept {
      std::swap(ledger_, other.ledger_);
      std::swap(bytes_, other.bytes_);
      std::swap(pageable_, other.pageable_);
    }
    std::shared_ptr<HeldBufferLedger> ledger_;
    std::uint64_t bytes_ = 0;
    bool pageable_ = false;
  };

  struct Totals {
    std::uint64_t bytes_max = 0;           ///< held at once, pinned and pageable
    std::uint64_t pageable_bytes_max = 0;  ///< held at once in pageable memory
    std::uint64_t pageable_buffers = 0;    ///< so often a pageable one was held
    std::uint64_t version = 0;             ///< another one: most() has changed
  };

  /// Counts `bytes` in whole 4 KiB.
  Entry hold(std::uint64_t bytes, bool pageable);
  Totals totals() const;
  /// By size, ascending.
  std::vector<HeldBuffers> most() const;

 private:
  struct Count {
    std::uint32_t now = 0;
    std::uint32_t most = 0;
  };
  void end(std::uint64_t bytes, bool pageable) noexcept;

  mutable Mutex mutex_;
  std::map<std::uint64_t, Count> counts_ PENSTOCK_GUARDED_BY(mutex_);  // by size
  std::uint64_t bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;                // held now
  std::uint64_t pageable_bytes_ PENSTOCK_GUARDED_BY(mutex_) = 0;       // of them
  Totals totals_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock
