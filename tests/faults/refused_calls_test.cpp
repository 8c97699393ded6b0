#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <map>
#include <set>

#include "tests/alloc/sanitizers.h"
#include "tests/faults/fault_fixture.h"
#include "tests/io/syscall_fault.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

struct Call {
  const char* name;
  std::uint32_t number;
  bool goes_on = false;     // refused after opening it changes nothing that a caller sees
  bool of_durable = false;  // what only a store makes that outlives its process
};

constexpr std::array kCalls = {
    Call{"ioctl", SYS_ioctl, true},
    Call{"write", SYS_write, true},
    Call{"read", SYS_read, true},
    Call{"poll", SYS_poll, true},
    Call{"ppoll", SYS_ppoll, true},
    Call{"epoll_wait", SYS_epoll_wait, true},
    Call{"epoll_ctl", SYS_epoll_ctl, true},
    Call{"munmap", SYS_munmap, true},
    Call{"madvise", SYS_madvise, true},
    Call{"fallocate", SYS_fallocate, true},
    Call{"io_uring_enter", SYS_io_uring_enter, true},
    Call{"io_uring_register", SYS_io_uring_register, true},
    Call{"io_getevents", SYS_io_getevents, true},
    Call{"io_submit", SYS_io_submit},
    Call{"fdatasync", SYS_fdatasync, false, true},
    Call{"fsync", SYS_fsync, false, true},
    Call{"pread64", SYS_pread64},
    Call{"pwrite64", SYS_pwrite64},
    Call{"eventfd2", SYS_eventfd2, true},
    Call{"timerfd_settime", SYS_timerfd_settime, true},
    Call{"ftruncate", SYS_ftruncate, false, true},
    Call{"fcntl", SYS_fcntl, true, true},
    Call{"statx", SYS_statx, true},
    Call{"mlock", SYS_mlock, true},
    Call{"mbind", SYS_mbind, true},
};

/// How a child ends; more than an exit status can be where nothing may be written.
enum Ending { kSucceeded = 0, kErrors = 10, kUnclear = 20, kWrongContent = 21 };

struct Cell {
  Call call;
  int error;
  bool before_opening;

  std::string name() const {
    return fmt::format("{} {} {}", call.name, ::strerrorname_np(error),
                       before_opening ? "before opening" : "after opening");
  }
};

/// Every system call that an engine lives on, refused by a filter, one at a time: whatever it is,
/// nothing hangs, aborts or gives back bytes that were never put.
class RefusedCallsTest : public FaultOnEveryEngine {
 protected:
  static constexpr std::uint64_t kBytes = 300 * kKiB + 7;
  static constexpr std::size_t kAtOnce = 8;
  static constexpr std::chrono::seconds kLimit{40};

  bool is_clear(const Error& error) const {
    return error.code && error.message.size() > 10 && error.message.find('\n') == std::string::npos;
  }
  /// Notes what an operation came to.
  template <class Value>
  bool succeeds(const Result<Value>& result) {
    if (result.has_error()) {
      ending_ = is_clear(result.error()) ? std::max(ending_, int{kErrors}) : int{kUnclear};
    }
    return result.has_value();
  }

  /// The child's whole life.
  int live(const Cell& cell) {
    if (cell.before_opening) {
      inject({cell.call.number, cell.error, 0, 0});
    }
    SwapEngineOptions options;
    options.config.engine = engine_kind();
    options.config.mode = cell.call.of_durable ? StoreMode::kDurable : StoreMode::kScratch;
    Budgets budgets;
    budgets.max_pinned_bytes = 8 * kMiB;
    budgets.max_pinned_given = true;
    budgets.ram_given = true;
    options.budgets = budgets;
    options.warn = [](const Warning&) {};
    auto opened = SwapEngine::open(std::move(options));
    if (!succeeds(opened)) {
      return ending_;
    }
    engine_ = std::move(*opened);
    const auto space = engine_->open_namespace(
        "test", {{directory_ / std::to_string(::getpid()), std::nullopt, std::nullopt}});
    if (!succeeds(space)) {
      return ending_;
    }
    space_ = *space;
    use(cell);
    (void)succeeds(engine_->flush());
    (void)succeeds(engine_->close());
    return ending_;
  }

  void use(const Cell& cell) {
    const TensorId tensor = declare("t", kBytes);
    std::set<unsigned> allowed;
    if (succeeds(engine_->put(tensor, content(kBytes, 1)).wait())) {
      allowed = {1};
    }
    (void)engine_->plan();
    if (!cell.before_opening) {
      inject({cell.call.number, cell.error, 0, 0});
    }
    for (const unsigned seed : {2U, 3U}) {
      const auto data = content(kBytes, seed);
      if (succeeds(engine_->put(tensor, data).wait())) {
        allowed = {seed};
      }
      look(tensor, allowed);
    }
    if (Result<Lease> lease = engine_->allocate(tensor); succeeds(lease)) {
      std::memcpy(lease->data(), content(kBytes, 4).data(), kBytes);
      (void)succeeds(engine_->commit(*lease).wait());
      allowed = {4};  // what no drive takes stays in memory
    }
    look(tensor, allowed);
  }

  /// What can be read is the last content that was put, or the one before where a put has failed.
  void look(TensorId tensor, const std::set<unsigned>& allowed) {
    std::vector<std::byte> target(kBytes);
    if (succeeds(engine_->get_into(tensor, target).wait()) && !is_one_of(target.data(), allowed)) {
      ending_ = kWrongContent;
    }
    if (const Result<Lease> lease = engine_->get(tensor).lease();
        succeeds(lease) && !is_one_of(lease->data(), allowed)) {
      ending_ = kWrongContent;
    }
  }
  bool is_one_of(const std::byte* bytes, const std::set<unsigned>& allowed) const {
    return std::ranges::any_of(allowed, [&](unsigned seed) {
      return std::memcmp(bytes, content(kBytes, seed).data(), kBytes) == 0;
    });
  }

  static std::vector<Cell> cells() {
    std::vector<Cell> all;
    for (const Call& call : kCalls) {
      const bool ends_sanitizer = (kAddressSanitized && call.number == SYS_write) ||
                                  (kSanitized && call.number == SYS_munmap);
      if (ends_sanitizer) {
        continue;  // it ends the process where its own calls are refused
      }
      for (const int error : {EPERM, ENOSYS}) {
        all.push_back({call, error, true});
        all.push_back({call, error, false});
      }
    }
    return all;
  }

  int ending_ = kSucceeded;
};

/// What a child's end means, in words.
std::string ending_of(const Cell& cell, int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {}", WTERMSIG(status));
  }
  switch (WEXITSTATUS(status)) {
    case kSucceeded:
      return "";
    case kErrors:
      return cell.call.goes_on && !cell.before_opening ? "an error that need not be" : "";
    case kUnclear:
      return "an error without a known cause";
    case kWrongContent:
      return "another content than was put";
    default:
      return fmt::format("exit status {}", WEXITSTATUS(status));
  }
}

TEST_P(RefusedCallsTest, OneAtATime) {
  fault_is("one of 25 system calls denied by seccomp",
           "it fails with EPERM or ENOSYS, before the engine is opened or afterwards");
  struct Child {
    Cell cell;
    Clock::time_point deadline;
  };
  std::map<::pid_t, Child> children;
  const std::vector<Cell> all = cells();
  std::size_t next = 0;
  std::size_t survived = 0;
  while (next < all.size() || !children.empty()) {
    while (next < all.size() && children.size() < kAtOnce) {
      const Cell& cell = all[next++];
      const ::pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        std::_Exit(live(cell));
      }
      children[child] = {cell, Clock::now() + kLimit};
    }
    int status = 0;
    const ::pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (const auto found = children.find(ended); ended > 0 && found != children.end()) {
      const std::string wrong = ending_of(found->second.cell, status);
      EXPECT_EQ(wrong, "") << found->second.cell.name();
      survived += wrong.empty() ? 1U : 0U;
      children.erase(found);
      continue;
    }
    for (auto& [pid, child] : children) {
      if (Clock::now() > child.deadline) {
        ADD_FAILURE() << "hangs: " << child.cell.name();
        child.deadline += kLimit;
        ::kill(pid, SIGKILL);
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_EQ(survived, all.size());
  happened(
      "opening: an error that names the call; afterwards all succeeds, or a clear error where "
      "the drive's own calls are denied");
  good_copy_is("yes");
}

PENSTOCK_ON_EVERY_ENGINE(RefusedCallsTest);

}  // namespace
}  // namespace penstock
