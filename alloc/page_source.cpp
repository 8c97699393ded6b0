#include "alloc/page_source.h"

#include <fmt/format.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {
namespace {

// Less than this is not worth a thread.
constexpr std::uint64_t kPopulateShareBytes = 4 * kMiB;

// A machine whose pages are larger than 4 KiB maps and unmaps only whole ones of its own.
std::uint64_t page_bytes() {
  static const std::uint64_t bytes =
      std::max(kBlockBytes, static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  return bytes;
}

std::atomic<std::uint64_t> never_unmapped_bytes{0};

// It may be refused (a filter; ENOMEM where a mapping would be divided beyond vm.max_map_count):
// then the memory stays with the process.
void unmap(std::byte* data, std::uint64_t bytes) {
  if (bytes != 0 && ::munmap(data, bytes) != 0) {
    never_unmapped_bytes += bytes;
  }
}

// Huge pages for the whole 2 MiB blocks, and none for the rest. Without the second half the kernel
// may let one huge page span the end of this mapping and the start of a neighbour; pinning either
// then accounts for all of its 2 MiB, and "pinned bytes" would depend on the neighbour.
// Advice only: kernels without huge pages say EINVAL, and nothing is lost.
void advise_huge_pages(std::byte* data, std::uint64_t bytes) {
  const std::uint64_t huge_bytes = align_down(bytes, kHugePageBytes);
  if (huge_bytes != 0) {
    (void)::madvise(data, huge_bytes, MADV_HUGEPAGE);
  }
  if (huge_bytes != bytes) {
    (void)::madvise(data + huge_bytes, bytes - huge_bytes, MADV_NOHUGEPAGE);
  }
}

}  // namespace

void populate_pages(std::span<std::byte> memory) noexcept {
  if (memory.empty()) {
    return;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uint64_t begin = align_down(address, page_bytes());
  const std::uint64_t end = align_up(address + memory.size(), page_bytes());
  std::byte* const first = memory.data() - (address - begin);
  // Huge pages must not be divided between threads, or both would wait for the same one.
  const std::uint64_t threads = std::clamp<std::uint64_t>(
      (end - begin) / kPopulateShareBytes, 1, std::max(1U, std::thread::hardware_concurrency()));
  const std::uint64_t share = align_up((end - begin) / threads, kHugePageBytes);
  const auto populate = [first, bytes = end - begin, share](std::uint64_t i) {
    if (i * share < bytes) {
      (void)::madvise(first + i * share, std::min(share, bytes - i * share), MADV_POPULATE_WRITE);
    }
  };
  std::vector<std::jthread> others;
  try {
    for (std::uint64_t i = 1; i < threads; ++i) {
      others.emplace_back(populate, i);
    }
  } catch (const std::exception&) {
    // No thread to be had: their pages come at the first touch.
  }
  populate(0);
}

std::shared_ptr<PageSource> PageSource::make(PageSourceOptions options) {
  return std::make_shared<PageSource>(std::move(options));
}

Result<Memory> PageSource::allocate(std::uint64_t bytes) {
  const Result<std::uint64_t> blocks = whole_blocks(bytes);
  if (!blocks) {
    return blocks.error();
  }
  const std::uint64_t size_bytes = align_up(*blocks, page_bytes());
  if (options_.huge_pages == HugePages::kReserved && is_aligned(size_bytes, kHugePageBytes)) {
    if (std::byte* data = map_reserved(size_bytes); data != nullptr) {
      return Memory(shared_from_this(), data, size_bytes);
    }
  }
  // mmap promises alignment to a page only: map more, and cut off what lies before and behind.
  const bool huge = size_bytes >= kHugePageBytes;
  const std::uint64_t mapped_bytes = size_bytes + (huge ? kHugePageBytes - page_bytes() : 0);
  void* mapped =
      ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return system_error(errno, fmt::format("cannot map {} of memory", format_bytes(size_bytes)));
  }
  auto* first = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<std::uintptr_t>(mapped);
  const std::uint64_t before = huge ? align_up(address, kHugePageBytes) - address : 0;
  std::byte* data = first + before;
  unmap(first, before);
  unmap(data + size_bytes, mapped_bytes - before - size_bytes);
  advise_huge_pages(data, size_bytes);
  prefer_node({data, size_bytes});
  return Memory(shared_from_this(), data, size_bytes);
}

// One huge page a call: mremap moves what lies in one mapping only, and a piece may consist of
// several. Huge pages are moved by their page table entry, without a copy. Where a call fails, the
// kernel may have unmapped the target already, and another thread may have mapped something there
// since: that address is left alone for ever.
Result<Memory> PageSource::join(std::vector<Memory> pieces, std::uint64_t bytes) {
  Result<Memory> joined = allocate(bytes);
  PENSTOCK_TRY(joined);
  std::byte* target = joined->data();
  for (Memory& piece : pieces) {
    const std::span<std::byte> pages = piece.detach();
    PENSTOCK_CHECK(is_aligned(pages.size(), kHugePageBytes), "a piece of {} bytes", pages.size());
    for (std::uint64_t at = 0; at < pages.size(); at += kHugePageBytes, target += kHugePageBytes) {
      if (::mremap(pages.data() + at, kHugePageBytes, kHugePageBytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                   target) == MAP_FAILED) {
        const int error = errno;
        unmap(pages.data() + at, pages.size() - at);
        const std::span<std::byte> whole = joined->detach();
        unmap(whole.data(), static_cast<std::uint64_t>(target - whole.data()));
        std::byte* const behind = target + kHugePageBytes;
        unmap(behind, static_cast<std::uint64_t>(whole.data() + whole.size() - behind));
        return system_error(error, "cannot move pages of memory");
      }
    }
  }
  return joined;
}

// The kernel promises reserved pages when they are mapped, but a control group's limit counts when
// they are touched, and then kills by SIGBUS: they are touched here, where it is an errno.
std::byte* PageSource::map_reserved(std::uint64_t bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
  if (mapped == MAP_FAILED) {
    refuse(&PageRefusals::huge_pages,
           system_error(errno, fmt::format("no reserved huge pages for {} (vm.nr_hugepages)",
                                           format_bytes(bytes)))
               .message);
    return nullptr;
  }
  auto* data = static_cast<std::byte*>(mapped);
  prefer_node({data, bytes});
  if (::madvise(data, bytes, MADV_POPULATE_WRITE) != 0) {
    refuse(&PageRefusals::huge_pages,
           system_error(
               errno, fmt::format("cannot provide {} of reserved huge pages", format_bytes(bytes)))
               .message);
    unmap(data, bytes);
    return nullptr;
  }
  return data;
}

void PageSource::prefer_node(std::span<std::byte> memory) {
  if (options_.numa.topology == nullptr) {
    return;
  }
  if (Result<void> placed = options_.numa.topology->prefer(memory, options_.numa.node); !placed) {
    refuse(&PageRefusals::numa, std::move(placed.error().message));
  }
}

void PageSource::refuse(std::string PageRefusals::* what, std::string reason) {
  const MutexLock lock(mutex_);
  refusals_.*what = std::move(reason);
}

PageRefusals PageSource::refusals() const {
  const MutexLock lock(mutex_);
  return refusals_;
}

std::uint64_t PageSource::leaked_bytes() noexcept {
  return never_unmapped_bytes;
}

void PageSource::release(std::byte* data, std::uint64_t bytes) noexcept {
  unmap(data, bytes);
}

}  // namespace penstock
