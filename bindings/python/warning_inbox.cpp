#include "warning_inbox.h"

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/out_of_memory.h"
#include "alloc/process_mark.h"
#include "python_call.h"
#include "python_text.h"
#include "swap/log.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

constexpr std::size_t kKeptMax = 1000;

struct Kept {
  Warning warning;
  ProcessMark process;  // a forked child leaves its parent's to that
  Kept* next = nullptr;
};

// A list, the newest first. No lock: a forked child could find it held.
std::atomic<Kept*> newest{nullptr};
std::atomic<std::size_t> kept_count{0};
thread_local bool is_delivering = false;

/// Oldest first.
std::vector<Warning> take_kept() {
  std::vector<Warning> taken;
  std::unique_ptr<Kept> kept(newest.exchange(nullptr, std::memory_order_acquire));
  kept_count.store(0, std::memory_order_relaxed);
  while (kept) {
    if (!kept->process.elsewhere()) {
      taken.push_back(std::move(kept->warning));
    }
    kept.reset(kept->next);
  }
  std::ranges::reverse(taken);
  return taken;
}

/// What a handler lets through that is no plain error, Ctrl-C for one, is for the caller.
void say(const Warning& warning, std::exception_ptr& interruption) {
  try {
    call(imported("penstock.messages", "warn"),
         nb::make_tuple(python_text(warning_code_name(warning.code)), python_text(warning.text)));
  } catch (nb::python_error& error) {
    log_warning(warning);
    if (!error.matches(PyExc_Exception)) {
      interruption = std::current_exception();
    } else {
      error.discard_as_unraisable("penstock.messages.warn");
    }
  }
}

}  // namespace

void keep_warning(const Warning& warning) noexcept {
  try {
    if (kept_count.fetch_add(1, std::memory_order_relaxed) < kKeptMax) {
      auto kept = std::make_unique<Kept>(Kept{warning, {}, newest.load(std::memory_order_relaxed)});
      while (!newest.compare_exchange_weak(kept->next, kept.get(), std::memory_order_release,
                                           std::memory_order_relaxed)) {
      }
      static_cast<void>(kept.release());
      return;
    }
  } catch (const std::bad_alloc&) {
    // The log may have room for it.
  }
  log_warning(warning);
}

void deliver_warnings() {
  if (newest.load(std::memory_order_relaxed) == nullptr || is_delivering ||
      Py_IsInitialized() == 0) {
    return;
  }
  std::exception_ptr interruption;
  is_delivering = true;
  for (const Warning& warning : take_kept()) {
    say(warning, interruption);
  }
  is_delivering = false;
  if (interruption) {
    std::rethrow_exception(interruption);
  }
}

void deliver_at_exit() {
  static_cast<void>(std::atexit([] {
    if_memory_allows([] {
      for (const Warning& warning : take_kept()) {
        log_warning(warning);
      }
    });
  }));
}

}  // namespace penstock::python
