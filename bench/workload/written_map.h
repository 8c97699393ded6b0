#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/workload/request_source.h"

namespace penstock::bench {

/// Which parts of a thread's files it has written, and in which pass last: what `verify=` reads
/// back. Parts are counted in steps that divide all blocks of the job; 4 bytes a step.
class WrittenMap {
 public:
  WrittenMap(const Job& job, std::span<const FileRegion> regions);

  void note(const Request& write);
  std::uint64_t written_bytes() const;
  /// Made for no files: of a job that writes nothing.
  bool empty() const noexcept { return files_.empty(); }

  /// Reads of everything written, in order and as large as the job's blocks; a read covers one pass
  /// only. The map must outlive the feed and stay as it is.
  class Feed final : public RequestFeed {
   public:
    explicit Feed(const WrittenMap& map) : map_(map) {}
    std::optional<Request> next() override;

   private:
    const WrittenMap& map_;
    std::uint32_t file_ = 0;
    std::size_t step_ = 0;
  };

 private:
  struct FileSteps {
    std::uint64_t begin;
    std::vector<std::uint32_t> pass;  // 1 + the pass, 0: not written
  };

  std::uint64_t step_bytes_;
  std::uint64_t steps_a_read_;
  std::vector<FileSteps> files_;
};

}  // namespace penstock::bench
