#pragma once

#include <utility>

#include "alloc/result.h"

namespace penstock::python {

/// Raises the class of penstock.errors that fits: I/O failures are OSErrors with errno and
/// filename. With the GIL held.
[[noreturn]] void raise(const Error& error);

template <class T>
T unwrap(Result<T> result) {
  if (result.has_error()) {
    raise(result.error());
  }
  if constexpr (!std::is_void_v<T>) {
    return std::move(result).value();
  }
}

}  // namespace penstock::python
