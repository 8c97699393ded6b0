#include "cli/direct_io_trial.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "alloc/bytes.h"

namespace penstock::cli {
namespace {

struct Free {
  void operator()(unsigned char* memory) const noexcept { std::free(memory); }
};
using Block = std::unique_ptr<unsigned char, Free>;

Block allocate(std::size_t alignment, std::size_t bytes) {
  return Block(static_cast<unsigned char*>(std::aligned_alloc(alignment, bytes)));
}

Error trial_failed(const File& file, const char* what, ssize_t got, int error) {
  return got < 0 ? system_error(error, fmt::format("cannot {} a block in {}", what, file.path()),
                                file.path())
                 : fault(Fault::kCorrupt, fmt::format("only {} bytes of a block came through on an "
                                                      "attempt to {} it in {}",
                                                      got, what, file.path()));
}

}  // namespace

Result<void> try_direct_io(const File& file) {
  const std::size_t bytes = std::max<std::size_t>(kBlockBytes, file.direct().offset_alignment);
  const std::size_t alignment = std::max<std::size_t>(kBlockBytes, file.direct().memory_alignment);
  PENSTOCK_TRY(file.reserve(0, bytes));
  const Block written = allocate(alignment, align_up(bytes, alignment));
  const Block read = allocate(alignment, align_up(bytes, alignment));
  if (!written || !read) {
    return system_error(ENOMEM, "cannot allocate a block");
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    written.get()[i] = static_cast<unsigned char>(i * 131 + 7);
  }
  const ssize_t put = ::pwrite(file.fd(), written.get(), bytes, 0);
  if (put != static_cast<ssize_t>(bytes)) {
    return trial_failed(file, "write", put, errno);
  }
  const ssize_t got = ::pread(file.fd(), read.get(), bytes, 0);
  if (got != static_cast<ssize_t>(bytes)) {
    return trial_failed(file, "read", got, errno);
  }
  if (std::memcmp(written.get(), read.get(), bytes) != 0) {
    return fault(Fault::kCorrupt,
                 fmt::format("{} gave back other bytes than were written", file.path()));
  }
  return {};
}

}  // namespace penstock::cli
