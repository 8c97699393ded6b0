#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/alloc/sanitizers.h"
#include "tests/faults/child.h"
#include "tests/faults/fault_fixture.h"

namespace penstock {
namespace {

class LimitsTest : public FaultTest {
 protected:
  /// What the next open() will give: no limit up to it leaves room for one.
  rlim_t next_descriptor() const {
    const int next = ::dup(0);
    EXPECT_GE(next, 0);
    ::close(next);
    return static_cast<rlim_t>(next);
  }
};

TEST_F(LimitsTest, LittleMemlockAsAnOrdinaryUser) {
  fault_is("memlock of 64 KiB", "RLIMIT_MEMLOCK, as an ordinary user");
  const auto swap = [this]() -> std::string {
    if (const std::string why = become_ordinary_user(directory_.path()); !why.empty()) {
      return "all succeeds with at most one warning";  // nothing can be shown
                                                       // there
    }
    limit(RLIMIT_MEMLOCK, 64 * kKiB);
    open_on("", 16 * kMiB);
    std::vector<TensorId> tensors;
    for (unsigned i = 0; i < 8; ++i) {
      tensors.push_back(declare(numbered(i), 3 * kMiB));
      put(tensors.back(), content(3 * kMiB, i));
    }
    for (unsigned i = 0; i < 8; ++i) {
      expect_content(tensors[i], content(3 * kMiB, i));
    }
    for (const std::string& warning : warnings_) {
      EXPECT_NE(warning.find("ulimit -l"), std::string::npos) << warning;
    }
    return warnings_.size() <= 1 ? "all succeeds with at most one warning"
                                 : std::to_string(warnings_.size()) + " warnings";
  };
  PENSTOCK_EXPECT_IN_CHILD(swap(), "all succeeds with at most one warning");
  happened(
      "all succeeds, unregistered, with at most one warning that names "
      "`ulimit -l`");
  good_copy_is("yes");
}

TEST_F(LimitsTest, NoDescriptorsLeft) {
  fault_is("no file descriptors left", "RLIMIT_NOFILE from the number in use upwards, one by one");
  if (kSanitized) {
    GTEST_SKIP() << "a sanitizer asks through descriptors whether memory can be read";
  }
  const auto sweep = [this]() -> std::string {
    const rlim_t before = next_descriptor();
    std::size_t refused = 0;
    for (rlim_t more = 0; more < 40; ++more) {
      limit(RLIMIT_NOFILE, before + more);
      const auto engine = SwapEngine::open({});
      if (engine) {
        break;
      }
      EXPECT_EQ(clear(engine.error()), "EMFILE") << engine.error().message;
      ++refused;
    }
    EXPECT_GT(refused, 0U);
    limit(RLIMIT_NOFILE, 1024);
    EXPECT_EQ(next_descriptor(), before) << "what fails leaves nothing open";
    open_on("");
    const TensorId tensor = declare("t", 3 * kMiB);
    put(tensor, content(3 * kMiB, 1));
    limit(RLIMIT_NOFILE, next_descriptor());
    const auto space =
        engine_->open_namespace("x", {{directory_.path(), std::nullopt, std::nullopt}});
    EXPECT_TRUE(space.has_error());
    put(tensor, content(3 * kMiB, 2));
    expect_content(tensor, content(3 * kMiB, 2));
    return space ? "opened" : "opening: " + clear(space.error());
  };
  PENSTOCK_EXPECT_IN_CHILD(sweep(), "opening: EMFILE");
  happened("opening: EMFILE");
  happened("what is open goes on");
  good_copy_is("yes");
}

TEST_F(LimitsTest, NoThreadsLeft) {
  fault_is("no threads left", "RLIMIT_NPROC from 0 upwards, one by one, as an ordinary user");
  const auto sweep = [this]() -> std::string {
    if (const std::string why = become_ordinary_user(directory_.path()); !why.empty()) {
      return "opening: EAGAIN";  // nothing can be shown there
    }
    for (const char* name : {"threads", "auto"}) {
      SwapEngineOptions options;
      options.config.engine = parse_engine_kind(name).value();
      std::size_t refused = 0;
      for (rlim_t most = 0; most < 2000; ++most) {  // other processes may have this user, too
        limit(RLIMIT_NPROC, most);
        const auto engine = SwapEngine::open(options);
        if (engine) {
          break;
        }
        EXPECT_EQ(clear(engine.error()), "EAGAIN") << engine.error().message;
        ++refused;
      }
      EXPECT_GT(refused, 0U) << name;
    }
    return HasFailure() ? "otherwise" : "opening: EAGAIN";
  };
  PENSTOCK_EXPECT_IN_CHILD(sweep(), "opening: EAGAIN");
  happened("opening: EAGAIN");
}

TEST_F(LimitsTest, AFileSizeLimit) {
  fault_is("file size limit", "RLIMIT_FSIZE of 16 MiB, SIGXFSZ as it is by default");
  const auto swap = [this]() -> std::string {
    ::signal(SIGXFSZ, SIG_DFL);
    limit(RLIMIT_FSIZE, 16 * kMiB);
    open_on("");
    const TensorId small = declare("small", 4 * kMiB);
    put(small, content(4 * kMiB, 1));
    const TensorId large = declare("large", 20 * kMiB);
    const Result<void> refused = engine_->put(large, content(20 * kMiB, 2)).wait();
    expect_content(small, content(4 * kMiB, 1));
    put(small, content(4 * kMiB, 3));
    expect_content(small, content(4 * kMiB, 3));
    return "put: " + (refused ? std::string("succeeded") : clear(refused.error()));
  };
  PENSTOCK_EXPECT_IN_CHILD(swap(), "put: EFBIG");
  happened("put: EFBIG");
  happened("what fits goes on being written");
  good_copy_is("yes");
}

TEST_F(LimitsTest, APoolSmallerThanTheLargestTensor) {
  fault_is("pool smaller than the largest tensor", "`max_pinned_bytes` of 4 MiB, tensor of 40 MiB");
  open_on("", 4 * kMiB);
  const TensorId tensor = declare("t", 40 * kMiB + 3);
  put(tensor, content(40 * kMiB + 3, 1));
  {
    Lease lease = engine_->get(tensor, Access::kUpdate).lease().value();
    const auto data = content(40 * kMiB + 3, 2);
    std::memcpy(lease.data(), data.data(), data.size());
    (void)engine_->commit(lease);
  }
  ASSERT_TRUE(engine_->flush().has_value());
  expect_good_copy(tensor, content(40 * kMiB + 3, 2));
  EXPECT_LE(engine_->stats().pool.pinned_bytes, 4 * kMiB);
  happened("all succeeds, in pageable memory");
}

TEST_F(LimitsTest, APoolTooSmallForAnything) {
  fault_is("pool too small for any read", "`max_pinned_bytes` of 1 MiB and of 0");
  for (const std::uint64_t pinned : {kMiB, std::uint64_t{0}}) {
    open_on("", pinned);
    const TensorId tensor = declare("t", 2 * kMiB + 3);
    put(tensor, content(2 * kMiB + 3, 1));
    const Result<void> refused = engine_->get(tensor).wait();
    ASSERT_TRUE(refused.has_error());
    EXPECT_EQ(clear(refused.error()), "budget exhausted") << refused.error().message;
    EXPECT_NE(refused.error().message.find("4194304"), std::string::npos)
        << "the smallest value that works: " << refused.error().message;
    std::vector<std::byte> target(2 * kMiB + 3);
    ASSERT_TRUE(engine_->get_into(tensor, target).wait().has_value());
    EXPECT_EQ(target, content(2 * kMiB + 3, 1));
  }
  happened("get: budget exhausted, with the smallest value that works");
  good_copy_is("by get_into");
}

TEST_F(LimitsTest, MemoryThatCannotBeHad) {
  fault_is("no memory for a tensor", "a tensor of 64 TiB");
  open_on("");
  const TensorId tensor = declare("huge", std::uint64_t{1} << 46);
  const Result<Lease> lease = engine_->allocate(tensor);
  ASSERT_TRUE(lease.has_error());
  EXPECT_EQ(clear(lease.error()), "ENOMEM") << lease.error().message;
  happened("allocate: ENOMEM");
  const TensorId small = declare("small", kMiB);
  put(small, content(kMiB, 1));
  expect_good_copy(small, content(kMiB, 1));
}

}  // namespace
}  // namespace penstock
