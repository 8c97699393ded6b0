#include "alloc/buffer.h"

#include <utility>

#include "alloc/buffer_pool_state.h"

namespace penstock {

Buffer::Buffer(Buffer&& other) noexcept {
  swap(other);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  Buffer(std::move(other)).swap(*this);
  return *this;
}

Buffer::~Buffer() {
  if (slot_ != nullptr) {
    state_->give_back(*slot_, bytes_);
  }
}

void Buffer::expect_return() noexcept {
  if (slot_ != nullptr) {
    state_->set_returning(*slot_, true);
  }
}

void Buffer::expect_no_return() noexcept {
  if (slot_ != nullptr) {
    state_->set_returning(*slot_, false);
  }
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(state_, other.state_);
  std::swap(slot_, other.slot_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(capacity_, other.capacity_);
  std::swap(kind_, other.kind_);
}

}  // namespace penstock
