#include "bench/workload/verified_contents.h"

#include <fmt/format.h>

#include <cerrno>

namespace penstock::bench {

VerifiedContents::VerifiedContents(const Job& job, const FileSet& files)
    : files_(files),
      pattern_(job.randseed),
      written_(job, job.direction.writes ? files.regions() : std::span<const FileRegion>{}),
      compares_(!job.direction.writes),
      one_pass_(!job.filenames.empty() && job.numjobs > 1) {}

void VerifiedContents::before_write(const Request& request, std::span<std::byte> block) {
  Request noted = request;
  noted.place.pass = one_pass_ ? 0 : request.place.pass;
  pattern_.fill(block, request.file, noted.place.offset, noted.place.pass);
  written_.note(noted);
}

Result<void> VerifiedContents::after_read(const Request& request,
                                          std::span<const std::byte> block) {
  // A job that only reads expects what one pass of writing would have left.
  const std::uint32_t pass = written_.empty() ? 0 : request.place.pass;
  const std::optional<std::uint64_t> differs =
      compares_ ? pattern_.first_difference(block, request.file, request.place.offset, pass)
                : std::nullopt;
  if (!differs) {
    return {};
  }
  const std::string& path = files_.files()[request.file].path();
  return system_error(
      EILSEQ,
      fmt::format(
          "verify: the byte at offset {} of {} (in a block of {} at {}) is not the one that "
          "was written",
          *differs, path, request.place.bytes, request.place.offset),
      path);
}

}  // namespace penstock::bench
