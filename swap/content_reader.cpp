#include "swap/content_reader.h"

#include <algorithm>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "alloc/out_of_memory.h"

namespace penstock {
namespace {

constexpr std::size_t kPartBytes = kMiB;

}  // namespace

/// The one given up ends as in its destructor: member by member its engine would go first.
ContentReader& ContentReader::operator=(ContentReader&& other) noexcept {
  if (this != &other) {
    std::destroy_at(this);
    std::construct_at(this, std::move(other));
  }
  return *this;
}

Result<std::optional<ContentReader::Part>> ContentReader::next() {
  if (failed_) {
    return copy_of(*failed_);
  }
  if (tensor_ == sources_.size()) {
    return std::optional<Part>();
  }
  Part part;
  if (const Lease& lease = sources_[tensor_].lease) {
    part = next_of_lease(lease);
  } else {
    std::optional<StoredReader::Part> stored = stored_->next();
    PENSTOCK_CHECK(stored.has_value(), "the parts end before tensor {}", tensor_);
    if (stored->problem) {
      failed_ = std::move(*stored->problem);
      return copy_of(*failed_);
    }
    part = {tensor_, stored->bytes, stored->last};
  }
  tensor_ += part.last ? 1U : 0U;
  return std::optional(part);
}

ContentReader::Part ContentReader::next_of_lease(const Lease& lease) {
  const std::span<const std::byte> all = lease.span();
  const std::size_t bytes = std::min(kPartBytes, all.size() - offset_);
  const Part part{tensor_, all.subspan(offset_, bytes), offset_ + bytes == all.size()};
  offset_ = part.last ? 0 : offset_ + bytes;
  return part;
}

}  // namespace penstock
