#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/recycling_source.h"
#include "tests/property/ledger_source.h"
#include "tests/property/step.h"

namespace penstock {
namespace {

enum Kind : std::uint32_t { kAllocate, kFree, kLimit };

constexpr std::uint64_t kUpstreamBytes = 256 * kMiB;

std::uint64_t begin_of(const Memory& memory) {
  return reinterpret_cast<std::uintptr_t>(memory.data());
}

/// Sizes that make trouble: blocks, huge pages, and just beside both.
rc::Gen<std::uint64_t> any_bytes() {
  const auto around = [](std::uint64_t unit, std::uint64_t most) {
    return rc::gen::map(rc::gen::tuple(rc::gen::inRange<std::uint64_t>(0, most),
                                       rc::gen::inRange<std::uint64_t>(0, 3)),
                        [unit](const std::tuple<std::uint64_t, std::uint64_t>& parts) {
                          return std::get<0>(parts) * unit + std::get<1>(parts);
                        });
  };
  return rc::gen::oneOf(around(kBlockBytes, 2000), around(kHugePageBytes, 40),
                        any_magnitude(2 * kUpstreamBytes));
}

/// Disjoint, aligned as promised, and together with what is retained exactly
/// what is out upstream.
void check_books(const std::vector<Memory>& held, const RecyclingSource& source,
                 const LedgerSource& upstream) {
  std::uint64_t held_bytes = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const Memory& memory : held) {
    RC_ASSERT(
        is_aligned(memory.data(), memory.bytes() >= kHugePageBytes ? kHugePageBytes : kBlockBytes));
    ranges.emplace_back(begin_of(memory), begin_of(memory) + memory.bytes());
    held_bytes += memory.bytes();
  }
  std::ranges::sort(ranges);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    RC_ASSERT(ranges[i - 1].second <= ranges[i].first);
  }
  RC_ASSERT(held_bytes + source.retained_bytes() == upstream.out_bytes());
}

void allocate(std::uint64_t bytes, std::vector<Memory>& held, RecyclingSource& source,
              const LedgerSource& upstream) {
  const bool retained = source.retains(bytes);
  const std::uint64_t out_before = upstream.out_bytes();
  Result<Memory> memory = source.allocate(bytes);
  if (!memory) {
    // Refused only where it makes no sense or where giving back all that is
    // idle does not help.
    RC_ASSERT((bytes == 0 || align_up(bytes, kBlockBytes) > kUpstreamBytes - upstream.out_bytes()));
    return;
  }
  RC_ASSERT(memory->bytes() >= bytes);
  RC_ASSERT(memory->bytes() <= std::max(align_up(bytes, kBlockBytes) / 7 * 8 + kBlockBytes,
                                        align_up(bytes, kHugePageBytes)));
  RC_ASSERT((!retained || upstream.out_bytes() == out_before));
  held.push_back(std::move(*memory));
}

void play(bool divisible) {
  const auto upstream = std::make_shared<LedgerSource>(divisible, kUpstreamBytes);
  const auto source = RecyclingSource::make(upstream);
  std::uint64_t limit = 0;
  {
    std::vector<Memory> held;
    for (const Step& step :
         *steps({kAllocate, kAllocate, kAllocate, kFree, kFree, kLimit}, any_bytes())) {
      if (step.kind == kAllocate) {
        allocate(step.amount, held, *source, *upstream);
      } else if (step.kind == kFree && !held.empty()) {
        std::swap(held[step.pick % held.size()], held.back());
        held.pop_back();
      } else if (step.kind == kLimit) {
        limit = step.amount;
        source->set_limits({.retained_bytes = limit});
      }
      RC_ASSERT(source->retained_bytes() <= limit);
      check_books(held, *source, *upstream);
    }
  }
  RC_ASSERT(source->retained_bytes() == upstream->out_bytes());
  source->set_limits({});
  RC_ASSERT(upstream->out_bytes() == 0U);
}

RC_GTEST_PROP(RecyclingSourceProperty, DividesAndJoinsWithoutLosingAByte, ()) {
  play(true);
}
RC_GTEST_PROP(RecyclingSourceProperty, ReusesWholePiecesWithoutLosingAByte, ()) {
  play(false);
}

}  // namespace
}  // namespace penstock
