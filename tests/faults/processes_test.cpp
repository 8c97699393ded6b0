#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>

#include "tests/faults/child.h"
#include "tests/faults/fault_fixture.h"

namespace penstock {
namespace {

class ProcessesTest : public FaultTest {};

/// Runs `body` in a child made by fork() and returns its exit status; 128 +
/// signal where it died of one.
template <class Body>
int in_fork(Body body) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    std::_Exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

TEST_F(ProcessesTest, TwoProcessesInOneDirectory) {
  fault_is("two processes on one scratch directory", "each writes and reads tensors of its own");
  const auto work = [this](unsigned seed) {
    open_on("");
    const TensorId tensor = declare("t", kMiB);
    for (unsigned i = 0; i < 20; ++i) {
      put(tensor, content(kMiB, seed + i));
      expect_content(tensor, content(kMiB, seed + i));
    }
    engine_.reset();
    return HasFailure() ? 1 : 0;
  };
  const ::pid_t other = ::fork();  // before there is any thread
  if (other == 0) {
    std::_Exit(work(1000));
  }
  EXPECT_EQ(work(1), 0);
  int status = -1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  happened("both work, apart");
  good_copy_is("yes");
}

TEST_F(ProcessesTest, AForkWithAnOpenEngine) {
  fault_is("fork() with an open engine", "the child calls everything, then destroys the engine");
  open_on("");
  const TensorId tensor = declare("t", 2 * kMiB);
  put(tensor, content(2 * kMiB, 1));
  Lease lease = engine_->allocate(tensor).value();
  const auto child = [&] {
    const auto refused = [](const auto& result) {
      return result.has_error() && result.error().code == make_error_code(Fault::kClosed) &&
             clear(result.error()) == "closed";
    };
    std::vector<std::byte> bytes(2 * kMiB);
    const bool all =
        refused(engine_->get(tensor).lease()) && refused(engine_->put(tensor, bytes).wait()) &&
        refused(engine_->get_into(tensor, bytes).wait()) && refused(engine_->allocate(tensor)) &&
        refused(engine_->commit(lease).wait()) && refused(engine_->flush()) &&
        refused(engine_->check()) && refused(engine_->plan()) && refused(engine_->state(tensor)) &&
        refused(engine_->info(tensor)) && refused(engine_->forget(tensor)) &&
        refused(engine_->rename(tensor, "u")) && refused(engine_->open_namespace("x")) &&
        refused(engine_->close_namespace(space_)) &&
        refused(engine_->declare(space_, {"u", DType::kU8, {5}, Role::kParam})) &&
        !engine_->find(space_, "t") && engine_->stats().gets == 0 &&
        engine_->placement().tensors.empty();
    engine_->prefetch(std::vector<TensorId>{tensor});
    lease.release();
    const bool closed = engine_->close().has_value();
    engine_.reset();
    return all && closed ? 0 : 1;
  };
  EXPECT_EQ(in_fork(child), 0);
  happened("child: every call: closed");
  expect_content(tensor, content(2 * kMiB, 1));
  lease.release();
  put(tensor, content(2 * kMiB, 2));
  expect_good_copy(tensor, content(2 * kMiB, 2));
  happened("the parent goes on");
}

TEST_F(ProcessesTest, AForkWhileOthersWork) {
  fault_is("fork() while other threads are in the engine",
           "20 forks; each child waits for a ticket "
           "of the parent's");
  open_on("");
  std::vector<TensorId> tensors;
  for (unsigned i = 0; i < 4; ++i) {
    tensors.push_back(declare(numbered(i), 2 * kMiB));
    put(tensors.back(), content(2 * kMiB, i));
  }
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    for (unsigned i = 0; !stop; ++i) {
      expect_content(tensors[i % 4], content(2 * kMiB, i % 4));
    }
  });
  for (int i = 0; i < 20; ++i) {
    const Ticket ticket = engine_->get(tensors[0]);
    EXPECT_EQ(in_fork([&] {
                const Result<void> waited = ticket.wait();  // it may have been done before the fork
                const bool answered = waited || clear(waited.error()) == "closed";
                return answered && engine_->get(tensors[0]).wait().has_error() ? 0 : 1;
              }),
              0);
  }
  stop = true;
  worker.join();
  happened("child: what was done is done, the rest: closed; the parent goes on");
  expect_good_copy(tensors[3], content(2 * kMiB, 3));
}

std::atomic<unsigned> signals_seen{0};

TEST_F(ProcessesTest, AStormOfSignals) {
  fault_is("signal storm", "SIGALRM every 200 µs without SA_RESTART, during all calls");
  struct sigaction action{};
  action.sa_handler = [](int) { ++signals_seen; };
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval storm{{0, 200}, {0, 200}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &storm, nullptr), 0);
  for (unsigned round = 0; round < 3; ++round) {
    open_on("", 4 * kMiB);
    const TensorId tensor = declare("t", 3 * kMiB + 7);
    for (unsigned i = 0; i < 4; ++i) {
      put(tensor, content(3 * kMiB + 7, i));
      (void)commit(tensor, content(3 * kMiB + 7, 100 + i));
      ASSERT_TRUE(engine_->flush().has_value());
      expect_content(tensor, content(3 * kMiB + 7, 100 + i));
    }
    ASSERT_TRUE(engine_->close().has_value());
  }
  const itimerval calm{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &calm, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
  EXPECT_GT(signals_seen, 20U);
  happened("all succeeds");
  good_copy_is("yes");
}

}  // namespace
}  // namespace penstock
