#include "alloc/pinned_source.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <utility>

#include "alloc/bytes.h"

namespace penstock {
namespace {

std::string memlock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    return "an unknown amount";
  }
  return limit.rlim_cur == RLIM_INFINITY ? "any amount" : format_bytes(limit.rlim_cur);
}

}  // namespace

PinnedSource::Hooks PinnedSource::memory_lock() {
  return {
      .pin = [](std::byte* data,
                std::uint64_t bytes) { return ::mlock(data, bytes) == 0 ? 0 : errno; },
      .unpin = [](std::byte* data, std::uint64_t bytes) { (void)::munlock(data, bytes); },
  };
}

std::shared_ptr<PinnedSource> PinnedSource::make(std::shared_ptr<MemorySource> upstream,
                                                 Hooks hooks) {
  return std::make_shared<PinnedSource>(std::move(upstream), std::move(hooks));
}

PinnedSource::PinnedSource(std::shared_ptr<MemorySource> upstream, Hooks hooks)
    : upstream_(std::move(upstream)), hooks_(std::move(hooks)) {}

Result<Memory> PinnedSource::allocate(std::uint64_t bytes) {
  Result<Memory> memory = upstream_->allocate(bytes);
  if (!memory) {
    return memory;
  }
  if (const int error = hooks_.pin(memory->data(), memory->bytes()); error != 0) {
    return system_error(error, fmt::format("cannot pin {} of memory (`ulimit -l` allows {})",
                                           format_bytes(memory->bytes()), memlock_limit()));
  }
  (void)::madvise(memory->data(), memory->bytes(), MADV_DONTFORK);
  const std::span<std::byte> parts = memory->detach();
  return Memory(shared_from_this(), parts.data(), parts.size());
}

void PinnedSource::release(std::byte* data, std::uint64_t bytes) noexcept {
  hooks_.unpin(data, bytes);
  (void)::madvise(data, bytes, MADV_DOFORK);
  const Memory back(upstream_, data, bytes);
}

}  // namespace penstock
