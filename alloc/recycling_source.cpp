#include "alloc/recycling_source.h"

#include <algorithm>
#include <new>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/size_class.h"

namespace penstock {
namespace {

// Parts begin where a huge page begins: the promised alignment, and no huge page is torn.
bool begins_huge_page(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kHugePageBytes == 0;
}

}  // namespace

std::shared_ptr<RecyclingSource> RecyclingSource::make(std::shared_ptr<MemorySource> upstream) {
  return std::make_shared<RecyclingSource>(std::move(upstream));
}

RecyclingSource::RecyclingSource(std::shared_ptr<MemorySource> upstream)
    : upstream_(std::move(upstream)),
      divisible_(upstream_->divisible()),
      joinable_(upstream_->joinable()) {}

Result<Memory> RecyclingSource::allocate(std::uint64_t bytes) {
  const Result<std::uint64_t> blocks = whole_blocks(bytes);
  if (!blocks) {
    return blocks.error();
  }
  Memory memory = take_retained(*blocks);
  if (!memory) {
    memory = join_retained(*blocks);
  }
  if (!memory) {
    make_room(*blocks);
    Result<Memory> fresh = upstream_->allocate(bytes);
    if (!fresh && retained_bytes() != 0) {
      give_back_all();
      fresh = upstream_->allocate(bytes);
    }
    if (!fresh) {
      return fresh;
    }
    memory = std::move(*fresh);
    const MutexLock lock(mutex_);
    lent_bytes_ += memory.bytes();
  }
  const std::span<std::byte> parts = memory.detach();
  return Memory(shared_from_this(), parts.data(), parts.size());
}

std::uint64_t RecyclingSource::room(std::uint64_t more) const {
  const std::uint64_t lent = lent_bytes_ + more;
  return std::min(limits_.retained_bytes,
                  limits_.total_bytes - std::min(limits_.total_bytes, lent));
}

RecyclingSource::Pieces::const_iterator RecyclingSource::best_for(std::uint64_t bytes) const {
  const bool may_divide = divisible_ && bytes >= kHugePageBytes;
  auto best = retained_.end();
  for (auto at = retained_.begin(); at != retained_.end(); ++at) {
    const std::uint64_t has = at->second.memory.bytes();
    const bool suits = may_divide ? has >= bytes : serves(has, bytes);
    if (suits && (best == retained_.end() || has < best->second.memory.bytes())) {
      best = at;
    }
  }
  return best;
}

bool RecyclingSource::retains(std::uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const std::uint64_t joined = joined_bytes(bytes);
  return best_for(bytes) != retained_.end() ||
         (joins(bytes) && is_aligned(joined, kHugePageBytes) && whole_huge_pages() >= joined);
}

std::uint64_t RecyclingSource::whole_huge_pages() const {
  std::uint64_t sum = 0;
  for (const Pieces::value_type& piece : retained_) {
    sum += whole_huge_pages(piece);
  }
  return sum;
}

std::uint64_t RecyclingSource::whole_huge_pages(const Pieces::value_type& piece) {
  return begins_huge_page(piece.first) ? align_down(piece.second.memory.bytes(), kHugePageBytes)
                                       : 0;
}

Memory RecyclingSource::take_retained(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  const auto best = best_for(bytes);
  if (best == retained_.end()) {
    return {};
  }
  const bool may_divide = divisible_ && bytes >= kHugePageBytes;
  const std::uint64_t part = align_up(bytes, kHugePageBytes);
  const std::uint64_t has = best->second.memory.bytes();
  Memory taken = take_front(best, may_divide && has > part ? part : has);
  lent_bytes_ += taken.bytes();
  return taken;
}

Memory RecyclingSource::join_retained(std::uint64_t bytes) {
  if (!joins(bytes)) {
    return {};
  }
  const std::uint64_t whole_bytes = joined_bytes(bytes);
  std::vector<Memory> pieces;
  std::uint64_t retained = 0;
  {
    const MutexLock lock(mutex_);
    pieces = take_huge_pages(align_down(whole_bytes, kHugePageBytes));
    for (const Memory& piece : pieces) {
      retained += piece.bytes();
    }
    lent_bytes_ += retained;
  }
  if (pieces.empty()) {
    return {};
  }
  make_room(whole_bytes - retained);
  Result<Memory> joined = upstream_->join(std::move(pieces), whole_bytes);
  const MutexLock lock(mutex_);
  lent_bytes_ -= retained;
  if (joined.has_error()) {
    return {};
  }
  lent_bytes_ += joined->bytes();
  return std::move(*joined);
}

std::vector<Memory> RecyclingSource::take_huge_pages(std::uint64_t bytes) {
  std::vector<Memory> taken;
  while (bytes > 0 && !retained_.empty()) {
    const auto largest = std::ranges::max_element(
        retained_, {}, [](const Pieces::value_type& piece) { return whole_huge_pages(piece); });
    const std::uint64_t part = std::min(whole_huge_pages(*largest), bytes);
    if (part == 0) {
      break;
    }
    taken.emplace_back();  // the last thing that may fail
    taken.back() = take_front(largest, part);
    bytes -= part;
  }
  return taken;
}

Memory RecyclingSource::take_front(Pieces::const_iterator piece, std::uint64_t bytes) {
  // The node is given its new address; nothing is allocated, so nothing can fail.
  auto node = retained_.extract(piece);
  const std::uint64_t freed_at = node.mapped().freed_at;
  const std::span<std::byte> parts = node.mapped().memory.detach();
  retained_bytes_ -= bytes;
  if (bytes < parts.size()) {
    node.key() = parts.data() + bytes;
    node.mapped() = {Memory(upstream_, parts.data() + bytes, parts.size() - bytes), freed_at};
    retained_.insert(std::move(node));
  }
  return Memory(upstream_, parts.data(), bytes);
}

std::vector<Memory> RecyclingSource::trim(std::uint64_t limit_bytes) {
  std::vector<Memory> dropped;
  while (retained_bytes_ > limit_bytes) {
    const auto oldest = std::min_element(
        retained_.begin(), retained_.end(),
        [](const auto& a, const auto& b) { return a.second.freed_at < b.second.freed_at; });
    const std::uint64_t has = oldest->second.memory.bytes();
    const std::uint64_t excess = align_up(retained_bytes_ - limit_bytes, kHugePageBytes);
    const bool divide = divisible_ && begins_huge_page(oldest->first) && excess < has;
    dropped.push_back(take_front(oldest, divide ? excess : has));
  }
  return dropped;
}

void RecyclingSource::set_limits(Limits limits) {
  MutexLock lock(mutex_);
  limits_ = limits;
  const std::vector<Memory> dropped = trim(room());
  lock.unlock();
}

/// Before as many fresh bytes are lent.
void RecyclingSource::make_room(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  const std::vector<Memory> dropped = trim(room(bytes));
  lock.unlock();
}

void RecyclingSource::give_back_all() {
  MutexLock lock(mutex_);
  const std::vector<Memory> dropped = trim(0);
  lock.unlock();
}

std::uint64_t RecyclingSource::lent_bytes() const {
  const MutexLock lock(mutex_);
  return lent_bytes_;
}

std::uint64_t RecyclingSource::retained_bytes() const {
  const MutexLock lock(mutex_);
  return retained_bytes_;
}

void RecyclingSource::release(std::byte* data, std::uint64_t bytes) noexcept {
  Memory memory(upstream_, data, bytes);
  std::vector<Memory> dropped;
  try {
    const MutexLock lock(mutex_);
    lent_bytes_ -= bytes;
    const bool may_divide = divisible_ && begins_huge_page(data);
    if (bytes <= room() || may_divide) {
      retain(std::move(memory));
      dropped = trim(room());
    }
  } catch (const std::bad_alloc&) {
    // No memory for the bookkeeping: the piece goes back upstream, which is what is needed now.
  }
}

void RecyclingSource::retain(Memory memory) {
  std::byte* const data = memory.data();
  const std::uint64_t bytes = memory.bytes();
  const auto [piece, added] = retained_.try_emplace(data);
  piece->second = {std::move(memory), ++clock_};
  retained_bytes_ += bytes;
  if (divisible_) {
    merge_with_next(piece);
    if (piece != retained_.begin()) {
      merge_with_next(std::prev(piece));
    }
  }
}

/// The younger time counts: what has just been freed is wanted again soon.
void RecyclingSource::merge_with_next(Pieces::iterator piece) {
  const auto next = std::next(piece);
  const std::uint64_t bytes = piece->second.memory.bytes();
  if (next == retained_.end() || piece->first + bytes != next->first ||
      !begins_huge_page(piece->first)) {
    return;
  }
  const std::uint64_t more = next->second.memory.bytes();
  piece->second.freed_at = std::max(piece->second.freed_at, next->second.freed_at);
  (void)next->second.memory.detach();
  (void)piece->second.memory.detach();
  piece->second.memory = Memory(upstream_, piece->first, bytes + more);
  retained_.erase(next);
}

}  // namespace penstock
