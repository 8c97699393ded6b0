#pragma once

#include <pthread.h>
#include <signal.h>

namespace penstock {

/// Blocks every signal on this thread during its lifetime. Threads started meanwhile inherit that
/// for ever: the signals of the program that we live in are its own threads' business.
class BlockedSignals {
 public:
  BlockedSignals() noexcept {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace penstock
