#pragma once

#include <span>
#include <string>
#include <utility>

#include "alloc/result.h"

namespace penstock {

/// A shared library that is looked for while the program runs, so that the program works where
/// there is none. Move-only; the library stays loaded for good, since runtimes of accelerators do
/// not survive being unloaded.
class DynamicLibrary {
 public:
  /// The first of `names` that is there. Errors: none is (kUnsupported, with the loader's words).
  static Result<DynamicLibrary> open(std::span<const char* const> names);

  /// Sets `function` to what the library calls `symbol`. Errors: kUnsupported, with the symbol and
  /// the library that lacks it.
  template <class Function>
  Result<void> load(const char* symbol, Function*& function) const {
    Result<void*> address = find(symbol);
    PENSTOCK_TRY(address);
    function = reinterpret_cast<Function*>(*address);
    return {};
  }

  /// As it was found.
  const std::string& name() const noexcept { return name_; }

 private:
  DynamicLibrary(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  Result<void*> find(const char* symbol) const;

  void* handle_;
  std::string name_;
};

}  // namespace penstock
