#include "tests/alloc/memory_source_contract.h"

#include "alloc/limiting_source.h"
#include "alloc/page_source.h"
#include "alloc/pinned_source.h"
#include "alloc/recycling_source.h"
#include "alloc/region_source.h"

namespace penstock {
namespace {

using Source = Result<std::shared_ptr<MemorySource>>;

// Needs no privilege and has no limit.
PinHook no_hook() {
  return {.pin = [](std::span<std::byte>) -> Result<void> { return {}; },
          .unpin = [](std::span<std::byte>) {}};
}

Source make_pages() {
  return PageSource::make();
}
// Huge pages that were reserved, where the machine has some; ordinary ones otherwise and beside.
Source make_reserved() {
  return PageSource::make({.huge_pages = HugePages::kReserved});
}
Source make_placed() {
  Result<std::shared_ptr<const NumaTopology>> topology = NumaTopology::read();
  if (!topology) {
    return topology.error();
  }
  const std::uint32_t node = (*topology)->nodes().front().number;
  return PageSource::make({.numa = {*std::move(topology), node}});
}
Source make_locked() {
  auto source = PinnedSource::make(PageSource::make());
  if (Result<Memory> all = source->allocate(128 * kMiB); !all) {
    return all.error();
  }
  return source;
}
Source make_pinned() {
  return PinnedSource::make(PageSource::make(), {no_hook(), no_hook()});
}
Source make_limiting() {
  return LimitingSource::make(PageSource::make(), 256 * kMiB, "max_pinned_bytes");
}
Source make_region() {
  Result<std::shared_ptr<RegionSource>> source = RegionSource::make();
  if (!source) {
    return source.error();
  }
  return std::shared_ptr<MemorySource>(*source);
}
Source make_recycling() {
  auto source = RecyclingSource::make(PageSource::make());
  source->set_limits({.retained_bytes = 16 * kMiB});
  return source;
}
// Pieces that are reused whole, since a pinned one may not be divided.
Source make_recycling_pinned() {
  auto source = RecyclingSource::make(PinnedSource::make(PageSource::make(), {no_hook()}));
  source->set_limits({.retained_bytes = 16 * kMiB});
  return source;
}
// As the engine stacks them.
Source make_all() {
  return LimitingSource::make(
      PinnedSource::make(PageSource::make({.huge_pages = HugePages::kReserved}), {no_hook()}),
      256 * kMiB, "all");
}

INSTANTIATE_TEST_SUITE_P(
    Sources, MemorySourceContract,
    testing::Values(SourceCase{"pages", make_pages}, SourceCase{"reserved", make_reserved},
                    SourceCase{"placed", make_placed}, SourceCase{"locked", make_locked},
                    SourceCase{"pinned", make_pinned}, SourceCase{"limited", make_limiting},
                    SourceCase{"recycled", make_recycling},
                    SourceCase{"recycled_whole", make_recycling_pinned},
                    SourceCase{"region", make_region}, SourceCase{"stacked", make_all}),
    [](const testing::TestParamInfo<SourceCase>& source) { return source.param.name; });

}  // namespace
}  // namespace penstock
