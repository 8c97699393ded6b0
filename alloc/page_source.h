#pragma once

#include <span>

#include "alloc/memory_source.h"

namespace penstock {

/// Makes the kernel provide the pages now, on this thread and for large memory on as many as there
/// are cores, not at the first touch by whoever moves bytes there. Contents stay. A hint: where it
/// cannot be done (Linux before 5.14), pages come later.
void populate_pages(std::span<std::byte> memory) noexcept;

/// Anonymous pages straight from the kernel, exactly as many as asked for (rounded up to 4 KiB,
/// never to a power of two), with transparent huge pages advised from 2 MiB on. Untouched pages
/// cost nothing.
class PageSource final : public MemorySource {
 public:
  static std::shared_ptr<PageSource> make() { return std::make_shared<PageSource>(); }

  Result<Memory> allocate(std::uint64_t bytes) override;
  std::string_view name() const noexcept override { return "pages"; }
  bool divisible() const noexcept override { return true; }

 protected:
  void release(std::byte* data, std::uint64_t bytes) noexcept override;
};

}  // namespace penstock
