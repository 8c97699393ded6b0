#pragma once

#include <cstdint>
#include <optional>

#include "bench/tune/drive_mix.h"
#include "bench/workload/request_feed.h"

namespace penstock::bench {

/// Tensor after tensor of a mix, laid behind each other in one file, again and again without end:
/// each is read or written whole, in requests of `request_bytes` at most (a multiple of 4 KiB), so
/// that bytes read keep their share of all. The same mix and share give the same requests.
class TensorFeed final : public RequestFeed {
 public:
  /// `mix` outlives the feed and has a tensor.
  TensorFeed(const DriveMix& mix, double read_share, std::uint64_t request_bytes)
      : mix_(mix), read_share_(read_share), request_bytes_(request_bytes) {}

  std::optional<Request> next() override;

 private:
  void begin_tensor();

  const DriveMix& mix_;
  const double read_share_;
  const std::uint64_t request_bytes_;
  std::size_t tensor_ = 0;
  std::uint64_t at_ = 0;  // what is left of the tensor: [at_, end_) of the file
  std::uint64_t end_ = 0;
  IoKind kind_ = IoKind::kRead;
  double read_bytes_ = 0;  // of whole tensors so far
  double moved_bytes_ = 0;
};

}  // namespace penstock::bench
