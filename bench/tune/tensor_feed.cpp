#include "bench/tune/tensor_feed.h"

#include <algorithm>

namespace penstock::bench {

std::optional<Request> TensorFeed::next() {
  if (at_ == end_) {
    begin_tensor();
  }
  const std::uint64_t bytes = std::min(end_ - at_, request_bytes_);
  const Request request{kind_, at_, bytes};
  at_ += bytes;
  return request;
}

void TensorFeed::begin_tensor() {
  if (tensor_ == mix_.tensors.size()) {
    tensor_ = 0;
    end_ = 0;
  }
  const std::uint64_t bytes = mix_.tensors[tensor_++];
  at_ = end_;
  end_ += bytes;
  const auto size = static_cast<double>(bytes);
  kind_ = read_bytes_ + size / 2 <= read_share_ * (moved_bytes_ + size) ? IoKind::kRead
                                                                        : IoKind::kWrite;
  read_bytes_ += kind_ == IoKind::kRead ? size : 0;
  moved_bytes_ += size;
}

}  // namespace penstock::bench
