#pragma once

#include "bench/workload/block_pattern.h"
#include "bench/workload/request_loop.h"
#include "bench/workload/written_map.h"

namespace penstock::bench {

/// `verify=`: fills every block with contents of its own, remembers what was written where, and
/// compares every byte that is read. Reads among writes are not compared: nobody knows which came
/// first. They are read again when all is written.
class VerifiedContents final : public ContentGuard {
 public:
  VerifiedContents(const Job& job, const FileSet& files);

  void before_write(const Request& request, std::span<std::byte> block) override;
  Result<void> after_read(const Request& request, std::span<const std::byte> block) override;

  const WrittenMap& written() const noexcept { return written_; }
  /// From now on reads are compared.
  void read_back() noexcept { compares_ = true; }

 private:
  const FileSet& files_;
  BlockPattern pattern_;
  WrittenMap written_;
  bool compares_;
  bool one_pass_;  // threads that share files write the same, however often
};

}  // namespace penstock::bench
