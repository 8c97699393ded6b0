#pragma once

#include <vector>

#include "alloc/memory_source.h"
#include "alloc/pin_hook.h"

namespace penstock {

/// Pins what an upstream source gives and unpins it before it goes back: once for each piece,
/// however many buffers are cut from it, and for all who need it pinned (a ring, a GPU).
///
/// Pinned memory is not there in forked children, who would be killed for touching it: fork() has
/// to copy pages that are pinned for I/O at once (2 GiB registered with a ring: 3.6 s and 2 GiB for
/// each child, against 1 ms), and data loaders fork once per worker.
class PinnedSource final : public MemorySource {
 public:
  /// `hooks` pin in this order and unpin in the opposite one.
  static std::shared_ptr<PinnedSource> make(std::shared_ptr<MemorySource> upstream,
                                            std::vector<PinHook> hooks = std::vector<PinHook>{
                                                memory_lock()});
  PinnedSource(std::shared_ptr<MemorySource> upstream, std::vector<PinHook> hooks);

  /// Errors: the upstream's; a hook's, with what `ulimit -l` allows where that may be the reason.
  /// Then nothing stays pinned, and the memory is back upstream.
  Result<Memory> allocate(std::uint64_t bytes) override;
  std::string_view name() const noexcept override { return "pinned"; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override;

 private:
  // By the first `count` hooks, the last of them first.
  void unpin(std::span<std::byte> memory, std::size_t count) noexcept;

  std::shared_ptr<MemorySource> upstream_;
  const std::vector<PinHook> hooks_;
};

}  // namespace penstock
