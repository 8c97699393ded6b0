#include "alloc/pinned_source.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/out_of_memory.h"

namespace penstock {
namespace {

std::string memlock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    return "an unknown amount";
  }
  return limit.rlim_cur == RLIM_INFINITY ? "any amount" : format_bytes(limit.rlim_cur);
}

Error refusal(Error error, std::uint64_t bytes) {
  error.message = fmt::format("cannot pin {} of memory: {}", format_bytes(bytes), error.message);
  const int number = error.system_errno();
  if (number == ENOMEM || number == EPERM || number == EAGAIN) {
    error.message += fmt::format(" (`ulimit -l` allows {})", memlock_limit());
  }
  return error;
}

}  // namespace

std::shared_ptr<PinnedSource> PinnedSource::make(std::shared_ptr<MemorySource> upstream,
                                                 std::vector<PinHook> hooks) {
  return std::make_shared<PinnedSource>(std::move(upstream), std::move(hooks));
}

PinnedSource::PinnedSource(std::shared_ptr<MemorySource> upstream, std::vector<PinHook> hooks)
    : upstream_(std::move(upstream)), hooks_(std::move(hooks)) {}

Result<Memory> PinnedSource::allocate(std::uint64_t bytes) {
  Result<Memory> memory = upstream_->allocate(bytes);
  if (!memory) {
    return memory;
  }
  for (std::size_t pinned = 0; pinned < hooks_.size(); ++pinned) {
    Result<void> done = unless_out_of_memory([&] { return hooks_[pinned].pin(memory->span()); });
    if (!done) {
      unpin(memory->span(), pinned);
      return refusal(std::move(done).error(), memory->bytes());
    }
  }
  (void)::madvise(memory->data(), memory->bytes(), MADV_DONTFORK);
  const std::span<std::byte> parts = memory->detach();
  return Memory(shared_from_this(), parts.data(), parts.size());
}

void PinnedSource::release(std::byte* data, std::uint64_t bytes) noexcept {
  unpin({data, static_cast<std::size_t>(bytes)}, hooks_.size());
  (void)::madvise(data, bytes, MADV_DOFORK);
  const Memory back(upstream_, data, bytes);
}

void PinnedSource::unpin(std::span<std::byte> memory, std::size_t count) noexcept {
  while (count-- != 0) {
    hooks_[count].unpin(memory);
  }
}

}  // namespace penstock
