#pragma once

#include <memory>
#include <utility>

namespace penstock::python {

/// The caller's array that an operation under way reads or fills. It lives until the end of the
/// operation is seen from Python, where alone it may be let go of: not on the I/O thread. With the
/// GIL held only.
class HeldArray {
 public:
  template <class Array>
  explicit HeldArray(Array array) : array_(std::make_shared<Array>(std::move(array))) {}
  void let_go() noexcept { array_.reset(); }

 private:
  std::shared_ptr<const void> array_;
};

}  // namespace penstock::python
