#pragma once

#include <atomic>
#include <string>

#include "alloc/memory_source.h"

namespace penstock {

/// Adds a byte budget to an upstream source: what is held through it never exceeds the limit.
class LimitingSource final : public MemorySource {
 public:
  /// `budget_name` is the user's word for the number (`max_pinned_bytes`), put into the error.
  static std::shared_ptr<LimitingSource> make(std::shared_ptr<MemorySource> upstream,
                                              std::uint64_t limit_bytes, std::string budget_name);
  LimitingSource(std::shared_ptr<MemorySource> upstream, std::uint64_t limit_bytes,
                 std::string budget_name);

  /// Errors: Fault::kExhausted naming the budget, what is held and the smallest limit that would
  /// do.
  Result<Memory> allocate(std::uint64_t bytes) override;
  std::string_view name() const noexcept override { return "limited"; }
  bool divisible() const noexcept override { return upstream_->divisible(); }

  std::uint64_t held_bytes() const noexcept { return held_bytes_.load(); }
  std::uint64_t limit_bytes() const noexcept { return limit_bytes_.load(); }
  /// A limit below what is held stops further allocations; nothing is taken away.
  void set_limit_bytes(std::uint64_t bytes) noexcept { limit_bytes_.store(bytes); }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override;

 private:
  // Adds `bytes` to what is held, unless that would exceed the limit.
  bool take(std::uint64_t bytes) noexcept;
  Error exhausted(std::uint64_t bytes) const;

  std::shared_ptr<MemorySource> upstream_;
  std::atomic<std::uint64_t> limit_bytes_;
  std::atomic<std::uint64_t> held_bytes_{0};
  std::string budget_name_;
};

}  // namespace penstock
