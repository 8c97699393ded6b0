#include "alloc/limiting_source.h"

#include <fmt/format.h>

#include <utility>

#include "alloc/bytes.h"
#include "alloc/out_of_memory.h"

namespace penstock {

std::shared_ptr<LimitingSource> LimitingSource::make(std::shared_ptr<MemorySource> upstream,
                                                     std::uint64_t limit_bytes,
                                                     std::string budget_name) {
  return std::make_shared<LimitingSource>(std::move(upstream), limit_bytes, std::move(budget_name));
}

LimitingSource::LimitingSource(std::shared_ptr<MemorySource> upstream, std::uint64_t limit_bytes,
                               std::string budget_name)
    : upstream_(std::move(upstream)),
      limit_bytes_(limit_bytes),
      budget_name_(std::move(budget_name)) {}

bool LimitingSource::take(std::uint64_t bytes) noexcept {
  const std::uint64_t limit_bytes = limit_bytes_.load();
  std::uint64_t held_bytes = held_bytes_.load();
  do {
    if (bytes > limit_bytes || held_bytes > limit_bytes - bytes) {
      return false;
    }
  } while (!held_bytes_.compare_exchange_weak(held_bytes, held_bytes + bytes));
  return true;
}

Error LimitingSource::exhausted(std::uint64_t bytes) const {
  const std::uint64_t held_bytes = held_bytes_.load();
  const std::uint64_t needed_bytes = held_bytes + bytes;
  return fault(
      Fault::kExhausted,
      fmt::format("cannot allocate {}: {} of {} ({}) are held; raise it to at least {} ({})",
                  format_bytes(bytes), format_bytes(held_bytes), budget_name_,
                  format_bytes(limit_bytes_.load()), needed_bytes, format_bytes(needed_bytes)));
}

Result<Memory> LimitingSource::allocate(std::uint64_t bytes) {
  const Result<std::uint64_t> blocks = whole_blocks(bytes);
  if (!blocks) {
    return blocks.error();
  }
  if (!take(*blocks)) {
    return exhausted(*blocks);
  }
  Result<Memory> memory =
      unless_out_of_memory([this, bytes] { return upstream_->allocate(bytes); });
  if (!memory) {
    held_bytes_ -= *blocks;
    return memory;
  }
  // An upstream may give more than whole blocks (a recycled piece): that counts, too.
  if (memory->bytes() > *blocks && !take(memory->bytes() - *blocks)) {
    held_bytes_ -= *blocks;
    return exhausted(memory->bytes());
  }
  const std::span<std::byte> parts = memory->detach();
  return Memory(shared_from_this(), parts.data(), parts.size());
}

void LimitingSource::release(std::byte* data, std::uint64_t bytes) noexcept {
  {
    const Memory back(upstream_, data, bytes);
  }
  // Last, so that never more is held than is counted.
  held_bytes_ -= bytes;
}

}  // namespace penstock
