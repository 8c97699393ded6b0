// Every single allocation of every call refused once, and once all that follow it too: the call is
// an error, and afterwards everything goes on.

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "tests/alloc/failing_allocation.h"
#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

/// Ends the program where something never returns, and says what.
class Watchdog {
 public:
  explicit Watchdog(std::string what) : what_(std::move(what)) {
    thread_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      if (!over_changed_.wait_for(lock, std::chrono::seconds(60), [this] { return over_; })) {
        std::fprintf(stderr, "hangs: %s\n", what_.c_str());
        std::_Exit(3);
      }
    });
  }
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    over_changed_.notify_all();
    thread_.join();
  }

 private:
  std::string what_;
  std::mutex mutex_;
  std::condition_variable over_changed_;
  bool over_ = false;
  std::thread thread_;
};

enum class Keeping : std::uint8_t { kOnDrive, kInRam, kDurable };

struct AllocationCase {
  const char* name;
  Keeping keeping;
  Refuse refuse;
};

class SwapEngineAllocationTest : public EngineFixture,
                                 public testing::WithParamInterface<AllocationCase> {
 protected:
  static constexpr std::uint64_t kBytes = 64 * kKiB + 100;

  void SetUp() override {
    EngineConfig config;
    config.mode =
        GetParam().keeping == Keeping::kDurable ? StoreMode::kDurable : StoreMode::kScratch;
    open(4 * kMiB, GetParam().keeping == Keeping::kInRam ? 16 * kMiB : 0, config);
    tensor_ = declare("t", kBytes);
    other_ = declare("other", kBytes);
    put(other_, content(kBytes, 9));
    put(tensor_, content(kBytes, 1));
    ASSERT_TRUE(engine_->plan().has_value());
  }

  /// `call` with its first allocation refused, then with its second, and so on until none is left.
  void refuse_each(const std::string& name, const std::function<void()>& call,
                   const std::function<void()>& before = {}) {
    unsigned number = 1;
    for (bool refused = true; refused; ++number) {
      ASSERT_LT(number, 2000U) << name;
      const Watchdog watchdog(fmt::format("{} without allocation {}", name, number));
      if (before) {
        before();
      }
      refuse_allocation(number, GetParam().refuse);
      try {
        call();
      } catch (const std::bad_alloc&) {
        // The call has said so.
      }
      refused = allow_allocations();
      expect_all_is_well(fmt::format("{} without allocation {}", name, number));
      if (HasFatalFailure() || HasNonfatalFailure()) {
        return;
      }
    }
    EXPECT_GT(number, 2U) << name << " allocates nothing";
  }

  void expect_all_is_well(const std::string& when) {
    SCOPED_TRACE(when);
    (void)engine_->flush();  // may tell of a failed write
    const Result<void> flushed = engine_->flush();
    if (flushed.has_error() && GetParam().keeping != Keeping::kDurable) {
      ADD_FAILURE() << flushed.error().message;
    }
    {
      const Result<Lease> lease = engine_->get(tensor_).lease();
      ASSERT_TRUE(lease.has_value()) << lease.error().message;
      const bool is_old = std::memcmp(lease->data(), old_.data(), kBytes) == 0;
      const bool is_new = std::memcmp(lease->data(), new_.data(), kBytes) == 0;
      EXPECT_TRUE(is_old || is_new) << "neither the old content nor the new one";
    }
    put(tensor_, old_);
    expect_content(tensor_, old_);
    expect_content(other_, content(kBytes, 9));
    const Result<void> last = engine_->flush();
    EXPECT_TRUE(last.has_value()) << last.error().message;
  }

  std::vector<std::byte> old_ = content(kBytes, 1);
  std::vector<std::byte> new_ = content(kBytes, 2);
  TensorId tensor_{};
  TensorId other_{};
};

TEST_P(SwapEngineAllocationTest, Put) {
  refuse_each("put", [this] { (void)engine_->put(tensor_, new_).wait(); });
}

TEST_P(SwapEngineAllocationTest, PutOfUnalignedMemory) {
  std::vector<std::byte> memory(kBytes + 1);
  std::memcpy(memory.data() + 1, new_.data(), kBytes);
  refuse_each("put", [&] { (void)engine_->put(tensor_, std::span(memory).subspan(1)).wait(); });
}

TEST_P(SwapEngineAllocationTest, FirstPut) {
  std::optional<TensorId> fresh;
  unsigned named = 0;
  const auto expect_all_or_nothing = [&] {
    if (fresh && engine_->find(space_, numbered(named))) {
      EXPECT_EQ(engine_->state(*fresh)->generation, 1U);
      expect_content(*fresh, new_);
    }
    fresh.reset();
  };
  refuse_each(
      "first put",
      [&] {
        const Result<TensorId> declared =
            engine_->declare_to_put(space_, {numbered(named), DType::kU8, {kBytes}, Role::kParam});
        if (declared.has_value()) {
          fresh = *declared;
          (void)engine_->put(*fresh, new_).wait();
        }
      },
      [&] {
        expect_all_or_nothing();
        ++named;
      });
  expect_all_or_nothing();
}

TEST_P(SwapEngineAllocationTest, Commit) {
  refuse_each("commit", [this] {
    const Result<Lease> lease = engine_->allocate(tensor_);
    if (lease.has_value()) {
      std::memcpy(lease->data(), new_.data(), kBytes);
      (void)engine_->commit(*lease).wait();
    }
  });
}

TEST_P(SwapEngineAllocationTest, CommitWithoutAWait) {
  Result<Lease> lease = Lease();
  refuse_each(
      "commit",
      [&] {
        const Lease filled = std::exchange(*lease, Lease());
        (void)engine_->commit(filled);
      },
      [&] {
        lease = engine_->allocate(tensor_);
        ASSERT_TRUE(lease.has_value());
        std::memcpy(lease->data(), new_.data(), kBytes);
      });
}

TEST_P(SwapEngineAllocationTest, Get) {
  refuse_each("get", [this] { (void)engine_->get(tensor_).lease(); });
}

TEST_P(SwapEngineAllocationTest, GetsInARow) {
  refuse_each("gets", [this] {
    const Ticket first = engine_->get(tensor_);
    const Ticket second = engine_->get(tensor_);
    const Ticket third = engine_->get(other_);
    (void)first.wait();
    (void)second.wait();
    (void)third.wait();
  });
}

TEST_P(SwapEngineAllocationTest, Update) {
  refuse_each("update", [this] {
    const Result<Lease> lease = engine_->get(tensor_, Access::kUpdate).lease();
    if (lease.has_value()) {
      std::memcpy(lease->data(), new_.data(), kBytes);
      (void)engine_->commit(*lease);
    }
  });
}

TEST_P(SwapEngineAllocationTest, GetInto) {
  std::vector<std::byte> target(kBytes + 1);
  refuse_each("get_into",
              [&] { (void)engine_->get_into(tensor_, std::span(target).subspan(1)).wait(); });
}

TEST_P(SwapEngineAllocationTest, PrefetchAndPlan) {
  refuse_each("prefetch", [this] {
    const std::array wanted{tensor_, other_};
    engine_->prefetch(wanted);
    (void)engine_->plan();
    (void)engine_->get(other_).wait();
  });
}

TEST_P(SwapEngineAllocationTest, Rename) {
  unsigned named = 0;
  refuse_each("rename", [&] { (void)engine_->rename(tensor_, numbered(named++)); });
}

TEST_P(SwapEngineAllocationTest, DeclareAndForget) {
  unsigned named = 0;
  refuse_each("declare", [&] {
    const Result<TensorId> fresh =
        engine_->declare(space_, {numbered(named++), DType::kU8, {kBytes}, Role::kParam});
    if (fresh.has_value()) {
      (void)engine_->put(*fresh, new_).wait();
      (void)engine_->forget(*fresh);
    }
  });
}

TEST_P(SwapEngineAllocationTest, Flush) {
  refuse_each("flush", [this] { (void)engine_->flush(); }, [this] { (void)commit(tensor_, new_); });
}

TEST_P(SwapEngineAllocationTest, Close) {
  if (GetParam().keeping == Keeping::kDurable) {
    GTEST_SKIP() << "a store that is opened again has its tensors";
  }
  bool refused = true;
  for (unsigned number = 1; refused; ++number) {
    ASSERT_LT(number, 2000U);
    const Watchdog watchdog(fmt::format("close without allocation {}", number));
    (void)commit(tensor_, new_);
    refuse_allocation(number, GetParam().refuse);
    try {
      (void)engine_->close();
    } catch (const std::bad_alloc&) {
      // It has said so.
    }
    refused = allow_allocations();
    engine_.reset();
    SetUp();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Engines, SwapEngineAllocationTest,
    testing::Values(AllocationCase{"on_drive_one", Keeping::kOnDrive, Refuse::kOne},
                    AllocationCase{"on_drive_all", Keeping::kOnDrive, Refuse::kAllAfter},
                    AllocationCase{"in_ram_one", Keeping::kInRam, Refuse::kOne},
                    AllocationCase{"in_ram_all", Keeping::kInRam, Refuse::kAllAfter},
                    AllocationCase{"durable_one", Keeping::kDurable, Refuse::kOne}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace penstock
