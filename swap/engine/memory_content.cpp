#include "swap/engine/memory_content.h"

#include <array>

#include "alloc/check.h"

namespace penstock {
namespace {

constexpr std::uint8_t bit(Presence presence) {
  return static_cast<std::uint8_t>(1U << static_cast<unsigned>(presence));
}

/// By what it is: what it may become. A put in place and a commit renew what is current; whatever
/// comes may fail to; to be absent is the end of each.
constexpr std::array<std::uint8_t, 5> kFollowing = {
    // kAbsent
    bit(Presence::kAbsent) | bit(Presence::kReading) | bit(Presence::kArriving) |
        bit(Presence::kCurrent),
    // kReading
    bit(Presence::kAbsent) | bit(Presence::kCurrent),
    // kCopying
    bit(Presence::kAbsent) | bit(Presence::kCurrent),
    // kArriving
    bit(Presence::kAbsent) | bit(Presence::kCurrent),
    // kCurrent
    bit(Presence::kAbsent) | bit(Presence::kCopying) | bit(Presence::kCurrent),
};

}  // namespace

bool may_follow(Presence from, Presence to) noexcept {
  return (kFollowing[static_cast<std::size_t>(from)] & bit(to)) != 0;
}

void MemoryContent::become(Presence next) noexcept {
  PENSTOCK_CHECK(may_follow(presence_, next), "a tensor's memory goes from state {} to {}",
                 static_cast<int>(presence_), static_cast<int>(next));
  presence_ = next;
}

std::uint64_t MemoryContent::begin(Presence coming) noexcept {
  PENSTOCK_CHECK(coming != Presence::kAbsent && coming != Presence::kCurrent,
                 "a content that begins to come is there, or is not");
  become(coming);
  return ++fill_;
}

void MemoryContent::become_current(std::uint64_t content_generation) noexcept {
  become(Presence::kCurrent);
  generation = content_generation;
}

void MemoryContent::become_absent() noexcept {
  become(Presence::kAbsent);
  generation = 0;
}

}  // namespace penstock
