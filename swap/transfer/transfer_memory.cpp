#include "swap/transfer/transfer_memory.h"

#include <algorithm>
#include <new>

namespace penstock {
namespace {

// What is in flight at once, mostly: more than these come from the system each time.
constexpr std::size_t kTrailersKept = 64;
constexpr std::size_t kObjectsKept = 64;  // of each kind

void*& next_of(void* spare) {
  return *static_cast<void**>(spare);
}

void release(void* object, std::size_t alignment) noexcept {
  ::operator delete(object, std::align_val_t{alignment});
}

}  // namespace

std::shared_ptr<TransferMemory> TransferMemory::make(std::shared_ptr<MemorySource> trailers) {
  return std::make_shared<TransferMemory>(std::move(trailers));
}

TransferMemory::TransferMemory(std::shared_ptr<MemorySource> trailers)
    : trailers_(std::move(trailers)) {
  spare_trailers_.reserve(kTrailersKept);
}

TransferMemory::~TransferMemory() {
  for (const Spares& spares : spares_) {
    for (void* spare = spares.first; spare != nullptr;) {
      release(std::exchange(spare, next_of(spare)), spares.alignment);
    }
  }
}

/// Those of this kind, or a place for them; null where there is none.
TransferMemory::Spares* TransferMemory::spares_of(std::size_t bytes,
                                                  std::size_t alignment) noexcept {
  const auto found = std::ranges::find_if(spares_, [&](const Spares& spares) {
    return spares.bytes == 0 || (spares.bytes == bytes && spares.alignment == alignment);
  });
  if (found == spares_.end()) {
    return nullptr;
  }
  found->bytes = bytes;
  found->alignment = alignment;
  return &*found;
}

void* TransferMemory::take(std::size_t bytes, std::size_t alignment) {
  {
    const std::lock_guard lock(mutex_);
    Spares* const spares = spares_of(bytes, alignment);
    if (spares != nullptr && spares->first != nullptr) {
      --spares->count;
      return std::exchange(spares->first, next_of(spares->first));
    }
  }
  return ::operator new(bytes, std::align_val_t{alignment});
}

void TransferMemory::keep(void* object, std::size_t bytes, std::size_t alignment) noexcept {
  {
    const std::lock_guard lock(mutex_);
    Spares* const spares = spares_of(bytes, alignment);
    if (spares != nullptr && spares->count < kObjectsKept) {
      ++spares->count;
      next_of(object) = std::exchange(spares->first, object);
      return;
    }
  }
  release(object, alignment);
}

Result<Memory> TransferMemory::take_trailer() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_trailers_.empty()) {
      Memory trailer = std::move(spare_trailers_.back());
      spare_trailers_.pop_back();
      return trailer;
    }
  }
  return trailers_->allocate(kTrailerBytes);
}

void TransferMemory::keep_trailer(Memory trailer) noexcept {
  const std::lock_guard lock(mutex_);
  if (trailer && spare_trailers_.size() < kTrailersKept) {
    spare_trailers_.push_back(std::move(trailer));
  }
}

}  // namespace penstock
