#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bench/workload/offset_sequence.h"
#include "io/io_op.h"

namespace penstock::bench {

/// The part of a file that one thread of a job works on.
struct FileRegion {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

/// One request of a job.
struct Request {
  IoKind kind = IoKind::kRead;
  std::uint32_t file = 0;  ///< which of the thread's
  Place place;
};

/// Whoever says what a thread of a job does next.
class RequestFeed {
 public:
  virtual ~RequestFeed() = default;
  RequestFeed() = default;
  RequestFeed(const RequestFeed&) = delete;
  RequestFeed& operator=(const RequestFeed&) = delete;

  /// Nothing: all is done.
  virtual std::optional<Request> next() = 0;
};

/// What fio's `rw=`, `bs=`, `size=`, `io_size=` and `loops=` ask of one thread, request by request.
/// Both directions together move that many bytes; each goes its own way through the files, which
/// take turns. Same job, same thread, same requests.
class RequestSource final : public RequestFeed {
 public:
  /// Errors: Fault::kInvalidArgument, where a file has no room for one block.
  static Result<std::unique_ptr<RequestSource>> make(const Job& job, std::uint32_t thread,
                                                     std::span<const FileRegion> regions);

  std::optional<Request> next() override;
  /// Begins to count the bytes anew, and goes on where it is.
  void restart_total() noexcept { issued_bytes_ = 0; }
  /// That next() will give in all; 0: without end.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// fio's default where the job names none.
  static std::vector<BlockShare> blocks_of(const Job& job, IoKind kind);
  /// The largest block that the job reads or writes.
  static std::uint64_t largest_block_bytes(const Job& job);

 private:
  // One direction's way through all files.
  struct Way {
    std::vector<OffsetSequence> files;
    std::uint32_t turn = 0;
  };

  RequestSource(const Job& job, std::uint32_t thread, std::span<const FileRegion> regions);
  Way make_way(const Job& job, IoKind kind, std::uint64_t seed,
               std::span<const FileRegion> regions) const;

  PercentDeck directions_;
  Way reads_;
  Way writes_;
  std::uint64_t total_bytes_ = 0;
  std::uint64_t issued_bytes_ = 0;
};

}  // namespace penstock::bench
