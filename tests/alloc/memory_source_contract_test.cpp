#include "tests/alloc/memory_source_contract.h"

#include "alloc/limiting_source.h"
#include "alloc/page_source.h"
#include "alloc/pinned_source.h"
#include "alloc/recycling_source.h"

namespace penstock {
namespace {

// Pinning that needs no privilege and no limit: the hooks are the caller's to choose.
PinnedSource::Hooks no_locking() {
  return {.pin = [](std::byte*, std::uint64_t) { return 0; },
          .unpin = [](std::byte*, std::uint64_t) {}};
}

std::shared_ptr<MemorySource> make_pages() {
  return PageSource::make();
}
std::shared_ptr<MemorySource> make_pinned() {
  return PinnedSource::make(PageSource::make(), no_locking());
}
std::shared_ptr<MemorySource> make_limiting() {
  return LimitingSource::make(PageSource::make(), 256 * kMiB, "max_pinned_bytes");
}
std::shared_ptr<MemorySource> make_recycling() {
  auto source = RecyclingSource::make(PageSource::make());
  source->set_retained_limit_bytes(16 * kMiB);
  return source;
}
// As the engine stacks them.
std::shared_ptr<MemorySource> make_all() {
  auto recycling = RecyclingSource::make(LimitingSource::make(
      PinnedSource::make(PageSource::make(), no_locking()), 256 * kMiB, "all"));
  recycling->set_retained_limit_bytes(32 * kMiB);
  return recycling;
}

INSTANTIATE_TEST_SUITE_P(
    Sources, MemorySourceContract,
    testing::Values(SourceCase{"pages", make_pages}, SourceCase{"pinned", make_pinned},
                    SourceCase{"limited", make_limiting}, SourceCase{"recycled", make_recycling},
                    SourceCase{"stacked", make_all}),
    [](const testing::TestParamInfo<SourceCase>& source) { return source.param.name; });

}  // namespace
}  // namespace penstock
