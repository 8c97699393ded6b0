#include "swap/plan/budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "alloc/bytes.h"
#include "swap/plan/chunk_shape.h"
#include "swap/plan/control_group.h"
#include "swap/plan/saturating.h"

namespace penstock {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// What two slots of ordinary tensors and the staging need on every machine that we know.
constexpr std::uint64_t kPinnedDefaultMin = 64 * kMiB;

/// The least max_pinned_bytes that leaves the pool so much. One by one: what devices take grows in
/// steps that are larger than a block, so that more may leave less.
std::uint64_t pinned_bytes_beside(std::uint64_t pool_bytes, std::uint64_t devices) {
  std::uint64_t bytes =
      align_up(std::max(pool_bytes, pinned_bytes_for_devices(devices)), kBlockBytes);
  while (bytes - device_chunks(bytes, devices).bytes() * devices < pool_bytes) {
    bytes += kBlockBytes;
  }
  return bytes;
}

/// Bytes, of a line `<key> <number> kB`; nothing where there is none.
std::optional<std::uint64_t> read_memory_line(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) {
      return std::strtoull(line.c_str() + key.size(), nullptr, 10) * kKiB;
    }
  }
  return std::nullopt;
}

}  // namespace

void Budgets::hold_for_devices(std::uint64_t bytes, std::uint64_t count) {
  device_bytes = bytes;
  devices = count;
  max_pinned_bytes -= std::min(max_pinned_bytes, bytes);
}

std::uint64_t Budgets::written_pinned_bytes() const {
  const std::uint64_t sum = max_pinned_bytes + device_bytes;
  const bool is_as_given = device_chunks(sum, devices).bytes() * devices == device_bytes;
  return is_as_given ? sum : pinned_bytes_beside(max_pinned_bytes, devices);
}

std::string Budgets::smallest_clause(std::uint64_t pool_bytes) const {
  if (devices == 0) {
    return fmt::format("; the smallest value that works is {}", pool_bytes);
  }
  return fmt::format(
      "; that is without {} of max_pinned_bytes, which contents go to and from devices through; "
      "the smallest value that works is {}, devices included",
      format_bytes(device_bytes), pinned_bytes_beside(pool_bytes, devices));
}

Budgets resolve_budgets(const EngineConfig& config, const BudgetFacts& facts) {
  Budgets budgets;
  const std::uint64_t ranks = std::max<std::uint64_t>(facts.ranks_on_node, 1);
  // Where the machine's memory is not known, there is nothing to cap by.
  budgets.quarter_bytes =
      facts.mem_available_bytes == 0 ? kUnlimited : facts.mem_available_bytes / 4 / ranks;
  budgets.memory_bytes = std::min(config.memory_bytes, budgets.quarter_bytes);

  budgets.max_pinned_given = config.max_pinned_bytes.has_value();
  budgets.max_pinned_bytes = config.max_pinned_bytes.value_or(
      std::min(std::max(kPinnedDefaultMin, multiply_saturating(2, facts.largest_class_slot_bytes)),
               budgets.quarter_bytes));

  budgets.ram_given = config.ram_bytes.has_value();
  const std::uint64_t left = budgets.memory_bytes > budgets.max_pinned_bytes
                                 ? budgets.memory_bytes - budgets.max_pinned_bytes
                                 : 0;
  budgets.ram_bytes = config.ram_bytes.value_or(left);
  return budgets;
}

std::uint64_t read_mem_available_bytes() {
  const std::optional<std::uint64_t> group = control_group_free_bytes();
  const std::optional<std::uint64_t> machine = read_memory_line("/proc/meminfo", "MemAvailable:");
  return machine ? std::min(group.value_or(*machine), *machine) : group.value_or(0);
}

std::uint64_t read_resident_bytes() {
  return read_memory_line("/proc/self/status", "VmRSS:").value_or(0);
}

}  // namespace penstock
