#pragma once

#include <functional>

#include "alloc/memory_source.h"

namespace penstock {

/// Pins what an upstream source gives and unpins it before it goes back.
/// The hooks default to memory_lock(); a GPU runtime or a ring may put its own there.
///
/// Pinned memory is not there in forked children, who would be killed for touching it: fork() has
/// to copy pages that are pinned for I/O at once (2 GiB registered with a ring: 3.6 s and 2 GiB for
/// each child, against 1 ms), and data loaders fork once per worker.
class PinnedSource final : public MemorySource {
 public:
  struct Hooks {
    /// Returns 0 or an errno.
    std::function<int(std::byte* data, std::uint64_t bytes)> pin;
    std::function<void(std::byte* data, std::uint64_t bytes)> unpin;
  };
  /// mlock/munlock.
  static Hooks memory_lock();

  static std::shared_ptr<PinnedSource> make(std::shared_ptr<MemorySource> upstream,
                                            Hooks hooks = memory_lock());
  PinnedSource(std::shared_ptr<MemorySource> upstream, Hooks hooks);

  /// Errors: the upstream's; the hook's errno with what `ulimit -l` allows in the message.
  Result<Memory> allocate(std::uint64_t bytes) override;
  std::string_view name() const noexcept override { return "pinned"; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override;

 private:
  std::shared_ptr<MemorySource> upstream_;
  Hooks hooks_;
};

}  // namespace penstock
