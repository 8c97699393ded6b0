#pragma once

#include <cstdint>
#include <optional>

#include "bench/job/job.h"
#include "io/io_op.h"

namespace penstock::bench {

/// One request within a file.
struct Request {
  IoKind kind = IoKind::kRead;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  bool operator==(const Request&) const = default;
};

/// What `rw=`, `bs=`, `size=`, `io_size=` and `loops=` ask of one thread: whole blocks in order,
/// each direction through the file for itself and again from its begin; the directions of a mix in
/// turns by their shares.
class BlockFeed {
 public:
  /// Of a file of `file_bytes`, which is at least one block.
  BlockFeed(const Job& job, std::uint64_t file_bytes);

  /// Nothing: all is done.
  std::optional<Request> next();
  /// That next() will give in all; 0: without end.
  std::uint64_t total_bytes() const noexcept { return total_blocks_ * block_bytes_; }

 private:
  std::uint64_t block_bytes_;
  std::uint64_t file_blocks_;
  std::uint64_t reads_percent_;
  std::uint64_t total_blocks_ = 0;
  std::uint64_t issued_ = 0;
  std::uint64_t reads_ = 0;  // of all blocks ever
  std::uint64_t writes_ = 0;
};

}  // namespace penstock::bench
