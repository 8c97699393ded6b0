#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <vector>

#include "swap/schedule/residency.h"
#include "tests/property/step.h"

namespace penstock {
namespace {

using Claim = Residency::Claim;

enum Kind : std::uint32_t { kClaim, kRelease, kLimit, kVictims };

struct Claimed {
  std::uint64_t bytes = 0;
  Claim claim = Claim::kSpare;
};
using Model = std::map<TensorId, Claimed>;

std::uint64_t sum(const Model& model) {
  std::uint64_t bytes = 0;
  for (const auto& [tensor, held] : model) {
    bytes += held.bytes;
  }
  return bytes;
}

void claim(Residency& residency, Model& model, TensorId tensor, std::uint64_t bytes,
           Claim strength) {
  const auto known = model.find(tensor);
  const bool fits = bytes <= residency.room_bytes();
  RC_ASSERT((residency.claim(tensor, bytes, strength) == (known != model.end() || fits)));
  if (known != model.end()) {
    known->second.claim = std::max(known->second.claim, strength);
  } else if (fits) {
    model[tensor] = {bytes, strength};
  }
}

/// Weaker ones only, the latest first, as many as are needed and none more; or
/// none at all.
void check_victims(const Residency& residency, const Model& model, std::uint64_t bytes,
                   Claim strength) {
  const std::vector<TensorId> victims = residency.victims(bytes, strength);
  std::uint64_t room = residency.room_bytes();
  std::vector<TensorId> expected;
  for (auto at = model.rbegin(); at != model.rend() && room < bytes; ++at) {
    if (at->second.claim < strength) {
      expected.push_back(at->first);
      room += at->second.bytes;
    }
  }
  if (room < bytes) {
    expected.clear();
  }
  RC_ASSERT(victims == expected);
}

RC_GTEST_PROP(ResidencyProperty, HoldsWhatWasClaimedWithinItsLimit, ()) {
  constexpr std::uint64_t kMost = 1000;
  Residency residency(*rc::gen::inRange<std::uint64_t>(0, kMost));
  Model model;
  for (const Step& step : *steps({kClaim, kClaim, kClaim, kRelease, kLimit, kVictims},
                                 rc::gen::inRange<std::uint64_t>(0, kMost))) {
    const TensorId tensor{step.pick % 16};
    const auto strength = static_cast<Claim>(step.pick / 16 % 3);
    const std::uint64_t before = residency.held_bytes();
    if (step.kind == kClaim) {
      claim(residency, model, tensor, step.amount, strength);
    } else if (step.kind == kRelease) {
      residency.release(tensor);
      model.erase(tensor);
    } else if (step.kind == kLimit) {
      residency.set_limit_bytes(step.amount);
    } else {
      check_victims(residency, model, step.amount, strength);
    }
    RC_ASSERT(residency.held_bytes() == sum(model));
    RC_ASSERT(residency.held_bytes() <= std::max(before, residency.limit_bytes()));
    RC_ASSERT(residency.room_bytes() + std::min(residency.held_bytes(), residency.limit_bytes()) ==
              residency.limit_bytes());
    RC_ASSERT(residency.holds(tensor) == model.contains(tensor));
  }
}

RC_GTEST_PROP(ResidencyProperty, ReleasingTheVictimsMakesTheRoom, ()) {
  Residency residency(500);
  for (const Step& step : *steps({kClaim}, rc::gen::inRange<std::uint64_t>(0, 200))) {
    residency.claim(TensorId{step.pick % 64}, step.amount, static_cast<Claim>(step.pick / 64 % 3));
  }
  const std::uint64_t wanted = *rc::gen::inRange<std::uint64_t>(0, 600);
  const auto strength = static_cast<Claim>(*rc::gen::inRange(0, 3));
  const std::vector<TensorId> victims = residency.victims(wanted, strength);
  const bool had_room = residency.room_bytes() >= wanted;
  for (const TensorId victim : victims) {
    residency.release(victim);
  }
  RC_ASSERT((victims.empty() || !had_room));
  RC_ASSERT((victims.empty() || residency.claim(TensorId{1000}, wanted, strength)));
}

}  // namespace
}  // namespace penstock
