#include "alloc/process_mark.h"

#include <pthread.h>

#include <atomic>

namespace penstock {
namespace {

std::atomic<std::uint64_t> fork_count{0};

/// Runs in the child, whose only thread this is.
void count_fork() {
  fork_count.fetch_add(1, std::memory_order_relaxed);
}

bool register_counting() noexcept {
  // Without memory for it no fork is noticed; then there is none for a second process either.
  return ::pthread_atfork(nullptr, nullptr, count_fork) == 0;
}

}  // namespace

std::uint64_t ProcessMark::forks() noexcept {
  static const bool counting = register_counting();
  static_cast<void>(counting);
  return fork_count.load(std::memory_order_relaxed);
}

}  // namespace penstock
