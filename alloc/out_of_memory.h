#pragma once

#include <new>

#include "alloc/result.h"
#include "alloc/thread_safety.h"

namespace penstock {

/// For who found no memory for a few bytes of his own. Needs none itself.
Error out_of_memory() noexcept;

/// What `make` returns (an Error), or, where there is no memory for its words, one of `code` with
/// next to none.
template <class Make>
PENSTOCK_CALLERS_LOCKS Error said(std::error_code code, Make make) noexcept {
  try {
    return make();
  } catch (const std::bad_alloc&) {
    Error error = out_of_memory();
    error.code = code;
    return error;
  }
}

/// `error`, or what of it can be had without memory.
inline Error copy_of(const Error& error) noexcept {
  return said(error.code, [&error] { return error; });
}

/// What `function` returns (a Result); out_of_memory() where it throws that there is none.
template <class Function>
PENSTOCK_CALLERS_LOCKS auto unless_out_of_memory(Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

/// For what may be left undone: hints, statistics, sentences in a log.
template <class Function>
PENSTOCK_CALLERS_LOCKS void if_memory_allows(Function function) noexcept {
  try {
    function();
  } catch (const std::bad_alloc&) {
    // Left undone.
  }
}

}  // namespace penstock
