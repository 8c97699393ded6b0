#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>

#include "tests/faults/child.h"
#include "tests/faults/fault_fixture.h"
#include "tests/io/syscall_fault.h"

namespace penstock {
namespace {

/// Kernels and containers that keep their best from us. How each call of an I/O engine can be
/// refused, and what is chosen then, is tests/io/engine_refusal_test.cpp's.
class RefusalTest : public FaultTest {
 protected:
  /// What an engine of the configuration's choice comes to, asked for by `name`.
  static std::string opened_as(const char* name) {
    SwapEngineOptions options;
    options.config.engine = parse_engine_kind(name).value();
    const auto engine = SwapEngine::open(std::move(options));
    if (engine) {
      return "opened";
    }
    EXPECT_NE(engine.error().message.find("seccomp"), std::string::npos) << engine.error().message;
    return clear(engine.error());
  }
  /// Swaps with whatever engine is left, with data that is looked at.
  void swap() {
    open_on("");
    const TensorId tensor = declare("t", 3 * kMiB + 7);
    for (unsigned i = 0; i < 3; ++i) {
      put(tensor, content(3 * kMiB + 7, i));
      expect_content(tensor, content(3 * kMiB + 7, i));
    }
  }
};

TEST_F(RefusalTest, NoRing) {
  fault_is("io_uring denied by seccomp", "io_uring_setup fails with EPERM, as in many containers");
  const auto run = [this]() -> std::string {
    inject({SYS_io_uring_setup, EPERM, 0, 0});
    swap();
    return "`auto` swaps; `uring`: " + opened_as("uring");
  };
  PENSTOCK_EXPECT_IN_CHILD(run(), "`auto` swaps; `uring`: EPERM");
  happened("all succeeds with the next engine; opening with `engine: uring`: EPERM");
  good_copy_is("yes");
}

TEST_F(RefusalTest, NeitherRingNorAio) {
  fault_is("io_uring and aio denied by seccomp", "io_uring_setup and io_setup fail with EPERM");
  const auto run = [this]() -> std::string {
    inject({SYS_io_uring_setup, EPERM, 0, 0});
    inject({SYS_io_setup, EPERM, 0, 0});
    swap();
    return "`auto` swaps; `aio`: " + opened_as("aio");
  };
  PENSTOCK_EXPECT_IN_CHILD(run(), "`auto` swaps; `aio`: EPERM");
  happened("all succeeds with threads; opening with `engine: aio`: EPERM");
  good_copy_is("yes");
}

}  // namespace
}  // namespace penstock
