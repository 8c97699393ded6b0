#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "alloc/buffer_pool_state.h"
#include "alloc/bytes.h"
#include "alloc/check.h"

// The half of the pool that deals in whole arenas: rare, slow, and never on the way of a lease.

namespace penstock {
namespace {

// io_uring registers at most 1 GiB as one buffer.
constexpr std::uint64_t kArenaBytesMax = kGiB;

}  // namespace

BufferArena::BufferArena(Memory memory_of_slots, BufferKind slot_kind, std::uint64_t bytes_per_slot,
                         std::uint32_t slot_count)
    : memory(std::move(memory_of_slots)),
      kind(slot_kind),
      slot_bytes(bytes_per_slot),
      slots(slot_count) {
  PENSTOCK_CHECK(slot_count <= memory.bytes() / slot_bytes, "{} slots of {} in {} bytes",
                 slot_count, slot_bytes, memory.bytes());
  std::byte* data = memory.data();
  for (BufferSlot& slot : slots) {
    slot.arena = this;
    slot.data = data;
    data += slot_bytes;
  }
}

Result<BufferSlot*> BufferPoolState::add_pinned(std::uint64_t bytes) {
  if (BufferSlot* slot = add_missing_slot(bytes); slot != nullptr) {
    return slot;
  }
  return add_single(bytes, BufferKind::kDedicated);
}

Result<BufferSlot*> BufferPoolState::add_overflow(std::uint64_t bytes) {
  return add_single(bytes, BufferKind::kOverflow);
}

std::optional<BufferPoolState::MissingSlot> BufferPoolState::missing_slot(std::uint64_t bytes) {
  const Lock lock(mutex_);
  for (const SlotClass& slot_class : fitting_classes(lock, bytes)) {
    if (slot_class.slots < slot_class.slots_planned) {
      return MissingSlot{static_cast<std::uint32_t>(&slot_class - classes_.data()),
                         slot_class.slot_bytes};
    }
  }
  return std::nullopt;
}

// What was lent when the pool was shaped may have kept a class from its slots. Once it is back, the
// class grows towards its plan: a slot stays, where a dedicated buffer is mapped, pinned and
// dropped for every lease. Null: nothing is missing, there is no room yet, or the pool is being
// shaped.
BufferSlot* BufferPoolState::add_missing_slot(std::uint64_t bytes) {
  if (!missing_slot(bytes)) {
    return nullptr;  // so that the first shape() finds none in its way
  }
  const std::unique_lock shaping(shape_mutex_, std::try_to_lock);
  const std::optional<MissingSlot> missing = shaping ? missing_slot(bytes) : std::nullopt;
  if (!missing) {
    return nullptr;
  }
  Result<Arenas> fresh = make_arena(missing->slot_bytes, 1, BufferKind::kSlot);
  if (!fresh) {
    return nullptr;
  }
  const Lock lock(mutex_);
  BufferArena& arena = put_in(lock, std::move(*fresh));
  BufferSlot& slot = take_fresh(lock, arena, bytes);
  adopt(lock, arena, missing->class_index);
  return &slot;
}

Result<BufferSlot*> BufferPoolState::add_single(std::uint64_t bytes, BufferKind kind) {
  Result<Arenas> fresh = make_arena(bytes, 1, kind);
  if (!fresh) {
    return fresh.error();
  }
  const Lock lock(mutex_);
  return &take_fresh(lock, put_in(lock, std::move(*fresh)), bytes);
}

BufferSlot& BufferPoolState::take_fresh(const Lock& lock, BufferArena& arena,
                                        std::uint64_t bytes) noexcept {
  BufferSlot& slot = arena.slots.front();
  slot.lent = true;
  arena.lent = 1;
  count_lease(lock, slot, bytes);
  return slot;
}

Result<void> BufferPoolState::reshape(std::span<const ClassPlan> plan, IfShaped if_shaped) {
  std::unique_lock one_at_a_time(shape_mutex_, std::try_to_lock);
  if (!one_at_a_time) {
    if (if_shaped == IfShaped::kLeave) {
      return {};
    }
    one_at_a_time.lock();
  }
  {
    Arenas idle;  // freed without the lock
    const Lock lock(mutex_);
    adopt_arenas(lock, plan, idle);
    serve_waiters(lock);
    wake_without_return(lock);
  }

  std::optional<Error> refusal;
  const std::vector<ClassPlan> kept = shape();
  for (std::uint32_t index = 0; index < plan.size(); ++index) {
    std::optional<Error> error = fill_class(index, plan[index].slots - kept[index].slots);
    if (error && !refusal) {
      refusal = std::move(error);
    }
  }
  const bool any_slot =
      std::ranges::any_of(shape(), [](const ClassPlan& entry) { return entry.slots != 0; });
  if (refusal && !any_slot) {
    return *std::move(refusal);
  }
  return {};
}

// Gives `plan` every arena that it can use whole. Arenas with lent slots come first: they keep
// their memory in any case.
void BufferPoolState::adopt_arenas(const Lock& lock, std::span<const ClassPlan> plan,
                                   Arenas& idle) {
  classes_.clear();
  for (const ClassPlan& wanted : plan) {
    SlotClass& slot_class = classes_.emplace_back();
    slot_class.slot_bytes = wanted.slot_bytes;
    slot_class.slots_planned = wanted.slots;
  }
  for (const bool lent : {true, false}) {
    for (auto next = arenas_.begin(); next != arenas_.end();) {
      BufferArena& arena = *next++;
      if (arena.kind != BufferKind::kSlot || (arena.lent != 0) != lent) {
        continue;
      }
      const auto wanted =
          std::ranges::lower_bound(plan, arena.slot_bytes, {}, &ClassPlan::slot_bytes);
      const auto index = static_cast<std::uint32_t>(wanted - plan.begin());
      if (wanted != plan.end() && wanted->slot_bytes == arena.slot_bytes &&
          classes_[index].slots + arena.slots.size() <= wanted->slots) {
        adopt(lock, arena, index);
      } else {
        arena.class_index = BufferArena::kRetired;
        if (!lent) {
          take_out(lock, arena, idle);
        }
      }
    }
  }
}

void BufferPoolState::adopt(const Lock& lock, BufferArena& arena,
                            std::uint32_t class_index) noexcept {
  arena.class_index = class_index;
  classes_[class_index].slots += static_cast<std::uint32_t>(arena.slots.size());
  for (BufferSlot& slot : arena.slots) {
    if (!slot.lent) {
      push_free(lock, slot);
    } else if (slot.returning) {
      ++classes_[class_index].returning;
    }
  }
}

// Where the budget does not hold all at once, halves give all that it does hold: of 10 slots, with
// room for 7, the arenas are of 5 and 2. Only shape() changes the classes, so the index stays good.
std::optional<Error> BufferPoolState::fill_class(std::uint32_t class_index, std::uint32_t missing) {
  std::uint64_t slot_bytes = 0;
  {
    const Lock lock(mutex_);
    slot_bytes = classes_[class_index].slot_bytes;
  }
  const std::uint64_t per_arena = std::max<std::uint64_t>(kArenaBytesMax / slot_bytes, 1);
  auto batch = static_cast<std::uint32_t>(std::min<std::uint64_t>(missing, per_arena));
  std::optional<Error> refusal;
  while (missing != 0 && batch != 0) {
    Result<Arenas> fresh = make_arena(slot_bytes, batch, BufferKind::kSlot);
    if (!fresh) {
      refusal = fresh.error();
      batch /= 2;
      continue;
    }
    const Lock lock(mutex_);
    adopt(lock, put_in(lock, std::move(*fresh)), class_index);
    serve_waiters(lock);
    missing -= batch;
    batch = std::min(batch, missing);
  }
  return refusal;
}

std::vector<ClassPlan> BufferPoolState::shape() const {
  const Lock lock(mutex_);
  std::vector<ClassPlan> plan;
  plan.reserve(classes_.size());
  for (const SlotClass& slot_class : classes_) {
    plan.push_back({slot_class.slot_bytes, slot_class.slots});
  }
  return plan;
}

Result<BufferPoolState::Arenas> BufferPoolState::make_arena(std::uint64_t slot_bytes,
                                                            std::uint32_t slots, BufferKind kind) {
  const bool pageable = kind == BufferKind::kOverflow;
  const std::shared_ptr<MemorySource>& source = pageable ? options_.overflow : options_.pinned;
  if (source == nullptr) {
    return fault(Fault::kExhausted, pageable ? "the pool has no pageable memory to fall back to"
                                             : "the pool has no pinned memory");
  }
  Result<Memory> memory = source->allocate(slot_bytes * slots);
  if (!memory) {
    return memory.error();
  }
  Arenas fresh;
  fresh.emplace_back(std::move(*memory), kind, slot_bytes, slots);
  return fresh;
}

BufferArena& BufferPoolState::put_in(const Lock& /*lock*/, Arenas fresh) noexcept {
  BufferArena& arena = fresh.front();
  arena.self = fresh.begin();
  arenas_.splice(arenas_.end(), fresh);
  if (arena.kind != BufferKind::kOverflow) {
    stats_.pinned_bytes += arena.memory.bytes();
  }
  return arena;
}

void BufferPoolState::take_out(const Lock& /*lock*/, BufferArena& arena, Arenas& idle) noexcept {
  PENSTOCK_CHECK(arena.lent == 0, "{} slots of {} bytes are lent", arena.lent, arena.slot_bytes);
  idle.splice(idle.end(), arenas_, arena.self);
  if (arena.kind != BufferKind::kOverflow) {
    stats_.pinned_bytes -= arena.memory.bytes();
  }
}

void BufferPoolState::close() {
  Arenas idle;  // freed without the lock
  const Lock lock(mutex_);
  stopped_ = true;
  wake_without_return(lock);
  classes_.clear();
  for (auto next = arenas_.begin(); next != arenas_.end();) {
    BufferArena& arena = *next++;
    arena.class_index = BufferArena::kRetired;
    if (arena.lent == 0) {
      take_out(lock, arena, idle);
    }
  }
}

}  // namespace penstock
