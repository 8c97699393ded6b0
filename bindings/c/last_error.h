#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "alloc/result.h"
#include "bindings/c/penstock.h"

namespace penstock::c {

/// Keeps the error as this thread's last and returns its status.
int fail(const Error& error) noexcept;
int fail(penstock_status status, std::string_view message) noexcept;

/// The body of a function of the C interface, `Result<void> function()`: its status. No exception
/// passes.
template <class Function>
int guarded(Function function) noexcept {
  try {
    const Result<void> done = function();
    return done.has_error() ? fail(done.error()) : PENSTOCK_OK;
  } catch (const std::bad_alloc&) {
    return fail(PENSTOCK_ERROR_EXHAUSTED, "out of memory");
  } catch (const std::exception& exception) {
    return fail(PENSTOCK_ERROR_INTERNAL, exception.what());
  } catch (...) {
    return fail(PENSTOCK_ERROR_INTERNAL, "an unknown exception");
  }
}

}  // namespace penstock::c
