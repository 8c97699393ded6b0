#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "alloc/memory_source.h"
#include "alloc/mutex.h"
#include "alloc/numa_topology.h"

namespace penstock {

/// Makes the kernel provide the pages now and not at their first touch: on this thread, and for
/// large memory on as many threads as there are cores. Contents stay. A hint: where the kernel
/// cannot do it (Linux before 5.14), pages come later.
void populate_pages(std::span<std::byte> memory) noexcept;

enum class HugePages : std::uint8_t {
  kTransparent,  ///< advised from 2 MiB on; the kernel gives them where it has some
  /// Those that an administrator reserved (`vm.nr_hugepages`) for whatever is whole huge pages,
  /// provided at once; else as kTransparent. Registering a GiB of them takes 2 ms instead of 17.
  kReserved,
};

/// A node of a machine from which pages should come.
struct NumaPreference {
  std::shared_ptr<const NumaTopology> topology;  ///< null: from wherever the kernel takes them
  std::uint32_t node = 0;
};

struct PageSourceOptions {
  HugePages huge_pages = HugePages::kTransparent;
  NumaPreference numa = {};
};

/// What a PageSource has done without, in the words of the latest refusal; empty where it got all
/// that it wanted.
struct PageRefusals {
  std::string huge_pages;
  std::string numa;
};

/// Anonymous pages straight from the kernel, exactly as many as asked for (rounded up to 4 KiB,
/// never to a power of two). Untouched pages cost nothing, but for reserved ones. Huge pages and
/// nodes are wishes: what is refused is done without, and the reason kept.
class PageSource final : public MemorySource {
 public:
  static std::shared_ptr<PageSource> make(PageSourceOptions options = {});
  explicit PageSource(PageSourceOptions options) : options_(std::move(options)) {}

  Result<Memory> allocate(std::uint64_t bytes) override;
  std::string_view name() const noexcept override { return "pages"; }
  bool divisible() const noexcept override { return true; }
  bool joinable() const noexcept override { return true; }
  Result<Memory> join(std::vector<Memory> pieces, std::uint64_t bytes) override;

  PageRefusals refusals() const;
  /// What this process could not give back to the system, of all sources.
  static std::uint64_t leaked_bytes() noexcept;

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override;

 private:
  // Null: there are none, or not enough.
  std::byte* map_reserved(std::uint64_t bytes);
  void prefer_node(std::span<std::byte> memory);
  void refuse(std::string PageRefusals::* what, std::string reason);

  const PageSourceOptions options_;
  mutable Mutex mutex_;
  PageRefusals refusals_ PENSTOCK_GUARDED_BY(mutex_);
};

}  // namespace penstock
