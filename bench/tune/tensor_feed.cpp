#include "bench/tune/tensor_feed.h"

#include <algorithm>

#include "alloc/bytes.h"

namespace penstock::bench {

std::optional<Request> TensorFeed::next() {
  while (at_ == end_) {
    begin_tensor();  // a part may be empty, but not every thread's
  }
  const std::uint64_t bytes = std::min(end_ - at_, cut_.request_bytes_max);
  const Request request{kind_, at_, bytes};
  at_ += bytes;
  return request;
}

void TensorFeed::begin_tensor() {
  const std::uint64_t bytes = mix_.tensors[tensor_];
  const std::uint64_t part_bytes = align_up((bytes + cut_.parts - 1) / cut_.parts, kBlockBytes);
  at_ = tensor_at_ + std::min(bytes, part_bytes * cut_.part);
  end_ = tensor_at_ + std::min(bytes, part_bytes * (cut_.part + 1));
  const auto size = static_cast<double>(bytes);
  kind_ = read_bytes_ + size / 2 <= read_share_ * (moved_bytes_ + size) ? IoKind::kRead
                                                                        : IoKind::kWrite;
  read_bytes_ += kind_ == IoKind::kRead ? size : 0;
  moved_bytes_ += size;
  tensor_at_ += bytes;
  if (++tensor_ == mix_.tensors.size()) {
    tensor_ = 0;
    tensor_at_ = 0;
  }
}

}  // namespace penstock::bench
