#include "cli/interruption.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>

namespace penstock::cli {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
constexpr int kStatusOfSignals = 128;

std::atomic<bool> g_asked_for{false};
static_assert(std::atomic<bool>::is_always_lock_free);
std::array<struct sigaction, kSignals.size()> g_before;

void (*g_at_signal)() = nullptr;

void on_signal(int signal) {
  const int error = errno;
  if (g_at_signal != nullptr) {
    g_at_signal();
  }
  if (g_asked_for.exchange(true)) {
    ::_exit(kStatusOfSignals + signal);
  }
  errno = error;
}

}  // namespace

Interruption::Interruption(void (*at_signal)()) {
  g_at_signal = at_signal;
  g_asked_for = false;
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t index = 0; index < kSignals.size(); ++index) {
    struct sigaction& before = g_before[index];
    if (::sigaction(kSignals[index], nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
      (void)::sigaction(kSignals[index], &action, nullptr);
    }
  }
}

Interruption::~Interruption() {
  for (std::size_t index = 0; index < kSignals.size(); ++index) {
    (void)::sigaction(kSignals[index], &g_before[index], nullptr);
  }
}

bool Interruption::asked_for() const noexcept {
  return g_asked_for;
}

}  // namespace penstock::cli
