#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "alloc/result.h"

namespace penstock::c {

/// What a table says of its handles.
struct HandleWords {
  std::string_view noun;  ///< "lease"
  std::string_view gone;  ///< what became of one that is not there any more: "was released"
};

/// Objects by handles: numbers that look like pointers, are never looked into and never used twice,
/// so that a stale one is recognised whatever has been made since. Thread-safe. A caller that found
/// an object keeps it alive while it uses it, even when another thread releases the handle.
template <class Handle, class Object>
class HandleTable {
 public:
  /// `kind` distinguishes the tables of one process: 1 to 7.
  HandleTable(HandleWords words, std::uintptr_t kind) : words_(words), next_(kKinds + kind) {}

  Handle* add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const std::uintptr_t number = next_;
    objects_.emplace(number, std::move(object));
    next_ += kKinds;
    return reinterpret_cast<Handle*>(number);
  }

  /// Errors: NULL and what never was a handle of this table; Fault::kClosed for what was one.
  Result<std::shared_ptr<Object>> find(const Handle* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) {
      return missing(handle);
    }
    return found->second;
  }

  /// Around a fork(): else a child may have the lock for ever that another thread held.
  void lock_for_fork() noexcept { mutex_.lock(); }
  void unlock_after_fork() noexcept { mutex_.unlock(); }

  /// Ends the handle. Errors: as find().
  Result<std::shared_ptr<Object>> take(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == objects_.end()) {
      return missing(handle);
    }
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  static constexpr std::uintptr_t kKinds = 8;

  Error missing(const Handle* handle) const {
    const auto number = reinterpret_cast<std::uintptr_t>(handle);
    if (number == 0) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("a null pointer is given for the {}", words_.noun));
    }
    if (number < next_ && number > kKinds && number % kKinds == next_ % kKinds) {
      return fault(Fault::kClosed, fmt::format("this {} {}", words_.noun, words_.gone));
    }
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} is no {} of penstock's", fmt::ptr(handle), words_.noun));
  }

  const HandleWords words_;
  mutable std::mutex mutex_;
  std::uintptr_t next_;  // guarded by mutex_, as objects_
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> objects_;
};

}  // namespace penstock::c
