#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/tune/drive_mix.h"
#include "bench/workload/request_feed.h"

namespace penstock::bench {

/// How tensors are divided into requests.
struct TensorCut {
  std::uint32_t part = 0;  ///< this thread's of `parts` equal parts of each tensor
  std::uint32_t parts = 1;
  std::uint64_t request_bytes_max = kMixTensorBytesMax;  ///< a multiple of 4 KiB
};

/// Tensor after tensor of a mix, laid behind each other in one file, again and again without end:
/// each is read or written whole, so that bytes read keep their share of all. The same mix, share
/// and cut give the same requests.
class TensorFeed final : public RequestFeed {
 public:
  /// `mix` outlives the feed and has a tensor.
  TensorFeed(const DriveMix& mix, double read_share, const TensorCut& cut)
      : mix_(mix), read_share_(read_share), cut_(cut) {}

  std::optional<Request> next() override;

 private:
  void begin_tensor();

  const DriveMix& mix_;
  const double read_share_;
  const TensorCut cut_;
  std::size_t tensor_ = 0;
  std::uint64_t tensor_at_ = 0;  // its place in the file
  std::uint64_t at_ = 0;         // what is left of this part of it: [at_, end_) of the file
  std::uint64_t end_ = 0;
  IoKind kind_ = IoKind::kRead;
  double read_bytes_ = 0;  // of whole tensors so far
  double moved_bytes_ = 0;
};

}  // namespace penstock::bench
