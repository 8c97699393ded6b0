#include "swap/engine/overflow_advice.h"

#include <fmt/format.h>

#include <string_view>

#include "alloc/bytes.h"

namespace penstock {
namespace {

// Less is not worth a word.
constexpr std::uint64_t kNoticedNs = 10'000'000;

std::string cost(const SwapStats& stats) {
  if (stats.overflow_ns < kNoticedNs) {
    return "which cost next to no time";
  }
  return fmt::format("which cost {:.2f} s of waiting for it",
                     static_cast<double>(stats.overflow_ns) / 1e9);
}

// As the configuration takes it.
std::string setting(std::uint64_t bytes) {
  return bytes % kMiB == 0 ? fmt::format("{}MiB", bytes / kMiB) : fmt::format("{}", bytes);
}

// What stands against that much pinned memory.
std::string limits(std::uint64_t needed, const Budgets& budgets,
                   std::optional<std::uint64_t> memlock_bytes) {
  std::string sentence;
  if (memlock_bytes && *memlock_bytes < needed) {
    sentence += fmt::format(" This process may pin {} only: raise `ulimit -l` first.",
                            format_bytes(*memlock_bytes));
  }
  if (budgets.quarter_bytes < needed) {
    sentence += fmt::format(
        " It is more than a quarter of the memory that the machine has for each process ({}), so "
        "pageable memory may be the better place.",
        format_bytes(budgets.quarter_bytes));
  }
  return sentence;
}

}  // namespace

std::optional<std::string> overflow_advice(const SwapStats& stats, const Budgets& budgets,
                                           std::optional<std::uint64_t> memlock_bytes) {
  const std::uint64_t given = budgets.max_pinned_bytes + stats.staging_bytes;
  const std::uint64_t needed = stats.pinned_bytes_needed;
  if (stats.overflow_buffers == 0 || needed <= given) {
    return std::nullopt;
  }
  // Without a value of its own ram_bytes would shrink by what max_pinned_bytes grows.
  const std::string beside =
      budgets.ram_given || budgets.ram_bytes == 0
          ? std::string()
          : fmt::format(", beside \"ram_bytes\": \"{}\" as it is now", setting(budgets.ram_bytes));
  // Slots have sizes: those of one may all be taken while others are free.
  const std::string_view taken =
      stats.held_bytes_max > given ? "" : "the slots of their size were taken: ";
  return fmt::format(
      "buffers of {} were held at once, up to {} of them in pageable memory because "
      "{}max_pinned_bytes is {}, {}; \"max_pinned_bytes\": \"{}\"{} in the penstock block pins all "
      "of them. All is right without it, too.{}",
      format_bytes(stats.held_bytes_max), format_bytes(stats.held_overflow_bytes_max), taken,
      format_bytes(given), cost(stats), setting(needed), beside,
      limits(needed, budgets, memlock_bytes));
}

}  // namespace penstock
