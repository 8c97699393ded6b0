#pragma once

#include <span>
#include <string>
#include <utility>

#include "alloc/result.h"

// In a struct: a pointer `role` to each function of a library that LIST(CALL) names as
// `CALL(role, function)`, of the type that the library's header gives it, and load(), which sets
// them all. A header may rename a function to the version that it describes (cuMemFree is
// cuMemFree_v2); the expanded name is the symbol too, so that types and symbols cannot disagree.
#define PENSTOCK_CALLS(LIST)                                                \
  LIST(PENSTOCK_DECLARE_CALL)                                               \
  Result<void> load(std::span<const char* const> libraries) {               \
    const Result<DynamicLibrary> library = DynamicLibrary::open(libraries); \
    PENSTOCK_TRY(library);                                                  \
    LIST(PENSTOCK_LOAD_CALL)                                                \
    return {};                                                              \
  }
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name in parentheses is no qualified name
#define PENSTOCK_DECLARE_CALL(role, function) decltype(&::function) role = nullptr;
#define PENSTOCK_LOAD_CALL(role, function) \
  PENSTOCK_TRY(library->load(PENSTOCK_CALL_SYMBOL(function), role));
#define PENSTOCK_CALL_SYMBOL(function) #function

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
