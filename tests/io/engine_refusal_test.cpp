#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <latch>
#include <string>
#include <string_view>
#include <vector>

#include "io/io_queue.h"
#include "tests/alloc/sanitizers.h"
#include "tests/io/process_state.h"
#include "tests/io/round_trip.h"
#include "tests/io/syscall_fault.h"
#include "tests/io/temp_directory.h"

// What a machine can refuse, made to happen in a child process of each test: a lower engine is
// chosen and the bytes come back, or there is one error that says why and what to do.

namespace penstock {
namespace {

/// Ends a child: 0, or 1 with the reason on stderr, where GoogleTest shows it.
class Verdict {
 public:
  Verdict& expect(bool good, const std::string& what) {
    if (!good) {
      std::fprintf(stderr, "not so: %s\n", what.c_str());
      good_ = false;
    }
    return *this;
  }
  Verdict& expect_has(const std::string& text, std::string_view part) {
    return expect(text.find(part) != std::string::npos, std::string(part) + " in: " + text);
  }
  [[noreturn]] void leave() const { std::_Exit(good_ ? 0 : 1); }

 private:
  bool good_ = true;
};

class EngineRefusalDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  TempDirectory directory_;
};

/// System calls that fail, the engine that is then chosen, and what the first refusal says.
struct Refusal {
  std::string name;
  std::vector<SyscallFault> faults;
  std::string chosen;
  std::string remedy;
};

std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
  return out << refusal.name;
}

class EngineFallback : public EngineRefusalDeathTest,
                       public testing::WithParamInterface<Refusal> {};

[[noreturn]] void use_what_is_left(const Refusal& refusal, const std::string& directory) {
  for (const SyscallFault& fault : refusal.faults) {
    inject(fault);
  }
  Verdict verdict;
  const auto queue = IoQueue::start(EngineKind::kAuto, {});
  verdict.expect(queue.has_value(), queue ? "" : queue.error().message);
  if (!queue) {
    verdict.leave();
  }
  verdict.expect((*queue)->engine_name() == refusal.chosen, std::string((*queue)->engine_name()));
  verdict.expect(!(*queue)->refusals().empty(), "a refusal is kept");
  for (const EngineCandidate& refused : (*queue)->refusals()) {
    verdict.expect(!refused.usable, refused.name);
    verdict.expect_has(refused.reason, refusal.remedy);
    const Result<EngineKind> kind = parse_engine_kind(refused.name);
    const auto asked_for = IoQueue::start(*kind, {});
    verdict.expect(!asked_for && asked_for.error().message == refused.reason,
                   "asked for by name it is the same error");
  }
  verdict.expect(round_trips(**queue, directory), "bytes come back");
  verdict.leave();
}

TEST_P(EngineFallback, TheNextEngineIsTakenAndTheReasonKept) {
  if (!IoQueue::start(GetParam().chosen == "aio" ? EngineKind::kAio : EngineKind::kThreads, {})) {
    GTEST_SKIP() << "no engine " << GetParam().chosen << " here";
  }
  EXPECT_EXIT(use_what_is_left(GetParam(), directory_.path()), testing::ExitedWithCode(0), "");
}

std::vector<Refusal> refusals() {
  const auto all_of = [](std::vector<std::uint32_t> numbers, int error) {
    std::vector<SyscallFault> faults;
    for (const std::uint32_t number : numbers) {
      faults.push_back({number, error, 0, 0});
    }
    return faults;
  };
  const std::vector<std::uint32_t> rings = {SYS_io_uring_setup};
  const std::vector<std::uint32_t> both = {SYS_io_uring_setup, SYS_io_setup};
  return {
      {"uring_forbidden_by_seccomp", all_of(rings, EPERM), "aio", "seccomp"},
      {"uring_missing", all_of(rings, ENOSYS), "aio", "built without it"},
      {"uring_too_old", all_of(rings, EINVAL), "aio", "Linux 5.6 is needed"},
      {"uring_without_memory", all_of(rings, ENOMEM), "aio", "ulimit -l"},
      {"uring_by_a_security_module", all_of(rings, EACCES), "aio", "security module"},
      {"uring_without_register", all_of({SYS_io_uring_register}, EPERM), "aio", "seccomp"},
      {"uring_without_enter", all_of({SYS_io_uring_enter}, EPERM), "aio", "seccomp"},
      {"both_forbidden_by_seccomp", all_of(both, EPERM), "threads", "seccomp"},
      {"both_missing", all_of(both, ENOSYS), "threads", "built without it"},
      {"aio_without_submit", all_of({SYS_io_uring_setup, SYS_io_submit}, EPERM), "threads",
       "seccomp"},
      {"aio_without_getevents", all_of({SYS_io_uring_setup, SYS_io_getevents}, EPERM), "threads",
       "seccomp"},
  };
}

INSTANTIATE_TEST_SUITE_P(Refusals, EngineFallback, testing::ValuesIn(refusals()),
                         [](const auto& refusal) { return refusal.param.name; });

TEST_F(EngineRefusalDeathTest, WhenAllOfTheMachinesAioIsTakenTheLimitIsNamed) {
  EXPECT_EXIT(
      {
        inject({SYS_io_uring_setup, EPERM, 0, 0});
        inject({SYS_io_setup, EAGAIN, 0, 0});
        const auto queue = IoQueue::start(EngineKind::kAuto, {});
        Verdict()
            .expect(queue && (*queue)->engine_name() == "threads", "threads are chosen")
            .expect_has((*queue)->refusals().at(1).reason, "/proc/sys/fs/aio-max-nr")
            .expect(round_trips(**queue, directory_.path()), "bytes come back")
            .leave();
      },
      testing::ExitedWithCode(0), "");
}

// As on a kernel before 5.19.
[[noreturn]] void use_ring_without_registered_buffers(const std::string& directory) {
  inject({SYS_io_uring_register, EINVAL, 1, IORING_REGISTER_BUFFERS2});
  Verdict verdict;
  const std::vector<std::string> features = probe_engines().at(0).features;
  verdict.expect(std::ranges::count(features, "registered_buffers") == 0, "not a feature");
  const auto queue = IoQueue::start(EngineKind::kUring, {});
  verdict.expect(queue.has_value(), queue ? "" : queue.error().message);
  const Memory memory = pages(64 * kKiB);
  const Result<void> registered = (*queue)->register_memory(memory.span());
  verdict.expect_has(registered ? "" : registered.error().message, "Linux 5.19 is needed");
  verdict.expect(round_trips(**queue, directory), "bytes come back");
  verdict.leave();
}

TEST_F(EngineRefusalDeathTest, AFeatureThatIsRefusedIsNotNamed) {
  const EngineCandidate uring = probe_engines().at(0);
  if (std::ranges::count(uring.features, "registered_buffers") == 0) {
    GTEST_SKIP() << (uring.usable ? "this kernel has no registered buffers" : uring.reason);
  }
  EXPECT_EXIT(use_ring_without_registered_buffers(directory_.path()), testing::ExitedWithCode(0),
              "");
}

// --- Limits of a process ------------------------------------------------------------------------

bool become_ordinary_user() {
  // A user of its own, so that no other process's threads and locked pages count.
  const auto user = static_cast<uid_t>(20'000 + ::getpid() % 40'000);
  return ::setresgid(user, user, user) == 0 && ::setresuid(user, user, user) == 0;
}

[[noreturn]] void use_queue_with_little_memlock(const std::string& directory, EngineKind kind) {
  const rlimit limit{64 * kKiB, 64 * kKiB};
  Verdict verdict;
  verdict.expect(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0, "memlock is set");
  const auto queue = IoQueue::start(kind, {});
  verdict.expect(queue.has_value(), queue ? "" : queue.error().message);
  if (!queue) {
    verdict.leave();
  }
  const Memory memory = pages(4 * kMiB);
  const Result<void> registered = (*queue)->register_memory(memory.span());
  if (kind == EngineKind::kUring) {
    verdict.expect(!registered && registered.error().system_errno() == ENOMEM, "it is too much");
    verdict.expect_has(registered ? "" : registered.error().message, "ulimit -l");
  }
  const Memory little = pages(16 * kKiB);  // a part of a huge page counts as all of it
  verdict.expect((*queue)->register_memory(little.span()).has_value(), "what fits is registered");
  verdict.expect(round_trips(**queue, directory), "bytes come back");
  (*queue)->unregister_memory(little.span());
  verdict.leave();
}

TEST_F(EngineRefusalDeathTest, LittleLockedMemoryCostsRegistrationOnly) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to become a user without CAP_IPC_LOCK";
  }
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  for (const EngineKind kind : {EngineKind::kUring, EngineKind::kAio, EngineKind::kThreads}) {
    if (!IoQueue::start(kind, {})) {
      continue;
    }
    EXPECT_EXIT(
        {
          if (!become_ordinary_user()) {
            std::_Exit(2);
          }
          use_queue_with_little_memlock(directory_.path(), kind);
        },
        testing::ExitedWithCode(0), "")
        << engine_kind_name(kind);
  }
}

int lowest_free_descriptor() {
  const int fd = ::dup(STDERR_FILENO);
  ::close(fd);
  return fd;
}

// From none left to enough: at each number a queue that works or one error, and nothing is lost.
[[noreturn]] void start_with_few_descriptors(EngineKind kind, const std::string& directory) {
  Verdict verdict;
  const int used = lowest_free_descriptor();
  rlimit limit{};
  verdict.expect(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit is known");
  int errors = 0;
  for (int spare = 0; spare < 16; ++spare) {
    limit.rlim_cur = static_cast<rlim_t>(used + spare);
    verdict.expect(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit is set");
    const auto queue = IoQueue::start(kind, {});
    if (!queue) {
      ++errors;
      verdict.expect(queue.error().system_errno() == EMFILE, queue.error().message);
      verdict.expect_has(queue.error().message, "ulimit -n");
    } else if (spare == 15) {
      verdict.expect(round_trips(**queue, directory), "bytes come back");
    }
  }
  verdict.expect(errors > 0 && errors < 16, "errors first, then queues");
  verdict.expect(lowest_free_descriptor() == used, "no descriptor is left open");
  verdict.leave();
}

TEST_F(EngineRefusalDeathTest, WithoutDescriptorsThereIsOneClearError) {
  if (kAddressSanitized) {
    GTEST_SKIP() << "UBSan opens files of its own to look at an exception";
  }
  for (const EngineKind kind :
       {EngineKind::kAuto, EngineKind::kUring, EngineKind::kAio, EngineKind::kThreads}) {
    if (!IoQueue::start(kind, {})) {
      continue;
    }
    EXPECT_EXIT(start_with_few_descriptors(kind, directory_.path()), testing::ExitedWithCode(0), "")
        << engine_kind_name(kind);
  }
}

TEST_F(EngineRefusalDeathTest, WithoutThreadsThereIsOneClearError) {
  EXPECT_EXIT(
      {
        // The C library falls back from clone3 to clone where there is no clone3.
        inject({SYS_clone3, ENOSYS, 0, 0});
        inject({SYS_clone, EAGAIN, 0, CLONE_THREAD});
        const auto queue = IoQueue::start(EngineKind::kThreads, {});
        const auto engine = make_engine(EngineKind::kThreads, {});
        Verdict()
            .expect(!queue && !engine, "neither loop nor workers can be")
            .expect_has(queue ? "" : queue.error().message, "ulimit -u")
            .expect_has(engine ? "" : engine.error().message, "ulimit -u")
            .leave();
      },
      testing::ExitedWithCode(0), "");
}

// Room for the loop's thread, and none for those that the kernel starts where a request would
// block.
[[noreturn]] void use_ring_without_kernel_threads(const std::string& directory) {
  const rlim_t threads = thread_count() + 1;
  const rlimit limit{threads, threads};
  Verdict verdict;
  verdict.expect(become_ordinary_user() && ::setrlimit(RLIMIT_NPROC, &limit) == 0, "limited");
  const auto queue = IoQueue::start(EngineKind::kUring, {});
  verdict.expect(queue.has_value(), queue ? "" : queue.error().message);
  for (const DirectMode mode : {DirectMode::kAuto, DirectMode::kBuffered}) {
    verdict.expect(queue && round_trips(**queue, directory, mode), "bytes come back");
  }
  verdict.leave();
}

TEST_F(EngineRefusalDeathTest, WithoutThreadsOfTheKernelARingStillMovesEveryByte) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to become a user whose threads are counted";
  }
  if (const auto queue = IoQueue::start(EngineKind::kUring, {}); !queue) {
    GTEST_SKIP() << queue.error().message;
  }
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  EXPECT_EXIT(use_ring_without_kernel_threads(directory_.path()), testing::ExitedWithCode(0), "");
}

// Of the threads that an engine wants some can be had: it goes on with those.
[[noreturn]] void use_queue_with_few_threads(const std::string& directory) {
  const rlimit limit{6, 6};
  Verdict verdict;
  verdict.expect(become_ordinary_user() && ::setrlimit(RLIMIT_NPROC, &limit) == 0, "limited");
  const auto queue = IoQueue::start(EngineKind::kThreads, {});
  verdict.expect(queue.has_value(), queue ? "" : queue.error().message);
  verdict.expect(queue && round_trips(**queue, directory), "bytes come back");
  verdict.expect(!make_engine(EngineKind::kThreads, {}), "and none is left for another");
  verdict.leave();
}

TEST_F(EngineRefusalDeathTest, WithFewThreadsTheEngineHasFewer) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root, to become a user whose threads are counted";
  }
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  EXPECT_EXIT(use_queue_with_few_threads(directory_.path()), testing::ExitedWithCode(0), "");
}

// --- File systems without direct I/O ------------------------------------------------------------

TEST_F(EngineRefusalDeathTest, FilesWithoutDirectIoAreBufferedOnEveryEngine) {
  for (const EngineKind kind : {EngineKind::kUring, EngineKind::kAio, EngineKind::kThreads}) {
    if (!IoQueue::start(kind, {})) {
      continue;
    }
    EXPECT_EXIT(
        {
          inject({SYS_fcntl, EINVAL, 2, O_DIRECT});
          const auto queue = IoQueue::start(kind, {});
          const Result<File> file = File::create_scratch(directory_.path());
          Verdict()
              .expect(queue && file && !file->direct().supported, "O_DIRECT is refused")
              .expect(file && !file->direct().reason.empty(), "the reason is kept")
              .expect(queue && round_trips(**queue, directory_.path()), "bytes come back")
              .leave();
        },
        testing::ExitedWithCode(0), "")
        << engine_kind_name(kind);
  }
}

}  // namespace
}  // namespace penstock
