#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/faults/fault_fixture.h"

namespace penstock {
namespace {

/// What a caller can do wrong. Each mistake is one error at the call that makes
/// it, or harmless; none stops the process, and none harms a tensor.
class MisuseTest : public FaultTest {
 protected:
  void SetUp() override {
    open_on("");
    tensor_ = declare("t", kBytes);
    put(tensor_, content(kBytes, 1));
  }
  void mistake(const std::string& what, const std::string& how) {
    fault_is("caller: " + what, how);
  }
  /// Whatever is not a lease's goes with its tensor, what was read ahead included.
  void expect_nothing_held() {
    ASSERT_TRUE(engine_->forget(tensor_).has_value());
    EXPECT_TRUE(eventually([&] {
      const SwapStats stats = engine_->stats();
      return stats.pool.slot_bytes_live + stats.pool.overflow_bytes == 0;
    }));
  }
  void expect_unharmed() { expect_good_copy(tensor_, content(kBytes, 1)); }

  static constexpr std::uint64_t kBytes = 2 * kMiB + 3;
  TensorId tensor_{};
};

TEST_F(MisuseTest, UnknownTensors) {
  mistake("unknown tensor", "numbers never given out, and one that was forgotten");
  const TensorId forgotten = declare("f", kBytes);
  ASSERT_TRUE(engine_->forget(forgotten).has_value());
  std::vector<std::byte> memory(kBytes);
  for (const TensorId id : {forgotten, TensorId{0}, TensorId{77}, TensorId{~std::uint64_t{0}}}) {
    for (const Result<void>& result :
         {engine_->get(id).wait(), engine_->put(id, memory).wait(),
          engine_->get_into(id, memory).wait(), engine_->forget(id), engine_->rename(id, "x")}) {
      ASSERT_TRUE(result.has_error());
      EXPECT_EQ(clear(result.error()), "unknown tensor");
    }
    EXPECT_EQ(engine_->allocate(id).error().code, Fault::kUnknownTensor);
    EXPECT_EQ(engine_->state(id).error().code, Fault::kUnknownTensor);
    EXPECT_EQ(engine_->info(id).error().code, Fault::kUnknownTensor);
    engine_->prefetch(std::vector<TensorId>{id, id});
  }
  happened("every call: unknown tensor");
  expect_unharmed();
}

TEST_F(MisuseTest, UnknownNamespaces) {
  mistake("unknown namespace", "a number never given out, and one that was closed");
  const NamespaceId closed =
      engine_->open_namespace("c", {{directory_.path(), std::nullopt, std::nullopt}}).value();
  const TensorId inside = engine_->declare(closed, {"u", DType::kU8, {5}, Role::kParam}).value();
  ASSERT_TRUE(engine_->close_namespace(closed).has_value());
  EXPECT_EQ(engine_->get(inside).wait().error().code, Fault::kUnknownTensor);
  for (const NamespaceId space : {closed, NamespaceId{0}, NamespaceId{99}}) {
    const auto declared = engine_->declare(space, {"u", DType::kU8, {5}, Role::kParam});
    ASSERT_TRUE(declared.has_error());
    EXPECT_EQ(clear(declared.error()), "invalid argument");
    EXPECT_EQ(clear(engine_->close_namespace(space).error()), "invalid argument");
    EXPECT_EQ(engine_->find(space, "u"), std::nullopt);
  }
  happened("every call: invalid argument");
  expect_unharmed();
}

TEST_F(MisuseTest, WrongSizes) {
  mistake("wrong size", "put and get_into with memory too small, too large and empty");
  for (const std::size_t bytes : {std::size_t{0}, kBytes - 1, kBytes + 1}) {
    std::vector<std::byte> memory(bytes);
    EXPECT_EQ(clear(engine_->put(tensor_, memory).wait().error()), "wrong size");
    EXPECT_EQ(clear(engine_->get_into(tensor_, memory).wait().error()), "wrong size");
  }
  happened("both: wrong size");
  expect_unharmed();
}

TEST_F(MisuseTest, SizesThatCannotBe) {
  mistake("impossible sizes", "declared with no bytes, and with more than 64 bits count");
  using Shape = std::vector<std::uint64_t>;
  for (const Shape& shape : {Shape{0}, Shape{7, 0}, Shape{1ULL << 40, 1ULL << 40},
                             Shape{(1ULL << 32) + 1, (1ULL << 32) + 1}, Shape{1ULL << 62, 3}}) {
    const auto declared = engine_->declare(space_, {"s", DType::kF32, shape, Role::kParam});
    ASSERT_TRUE(declared.has_error()) << shape[0];
    EXPECT_EQ(clear(declared.error()), "wrong size");
  }
  happened("declare: wrong size");
  expect_unharmed();
}

TEST_F(MisuseTest, Names) {
  mistake("names", "empty, of 1 MiB, with line breaks or NUL, no UTF-8, `__metadata__`, taken");
  const auto declared = [this](std::string name) {
    return engine_->declare(space_, {std::move(name), DType::kU8, {5}, Role::kParam});
  };
  for (const std::string& name :
       {std::string(), std::string(1 << 20, 'n'), std::string("t"), std::string("line\nbreak"),
        std::string("no UTF-8 \xff"), std::string("__metadata__"), std::string("a\0b", 3)}) {
    ASSERT_TRUE(declared(name).has_error()) << name.size();
    EXPECT_EQ(clear(declared(name).error()), "invalid argument");
    const TensorId other = declared("other").value();
    const Result<void> renamed = engine_->rename(other, name);
    ASSERT_TRUE(renamed.has_error());
    EXPECT_EQ(clear(renamed.error()), "invalid argument");
    ASSERT_TRUE(engine_->forget(other).has_value());
  }
  happened("declare, rename: invalid argument");
  const TensorId odd = declared("größe").value();
  EXPECT_TRUE(engine_->get(odd).wait().has_error());
  expect_unharmed();
}

TEST_F(MisuseTest, NoContentYet) {
  mistake("get before any put", "get, get_into and prefetch of a tensor without a content");
  const TensorId empty = declare("empty", kBytes);
  std::vector<std::byte> memory(kBytes);
  engine_->prefetch(std::vector<TensorId>{empty});
  EXPECT_EQ(clear(engine_->get(empty).wait().error()), "invalid argument");
  EXPECT_EQ(clear(engine_->get_into(empty, memory).wait().error()), "invalid argument");
  happened("get, get_into: invalid argument");
  expect_unharmed();
}

TEST_F(MisuseTest, DoubleRelease) {
  mistake("double release", "a lease, its copies and its ticket, released again and again");
  const Ticket ticket = engine_->get(tensor_);
  Lease lease = ticket.lease().value();
  Lease copy = lease;
  lease.release();
  lease.release();
  EXPECT_EQ(lease.data(), nullptr);
  EXPECT_EQ(lease.bytes(), 0U);
  EXPECT_NE(copy.data(), nullptr);
  copy.release();
  EXPECT_EQ(clear(ticket.lease().error()), "invalid argument");
  EXPECT_EQ(clear(engine_->commit(lease).wait().error()), "invalid argument");
  happened("nothing; commit of what was released: invalid argument");
  expect_unharmed();
  expect_nothing_held();
}

TEST_F(MisuseTest, ReleaseElsewhere) {
  mistake("release on another thread", "leases of one thread dropped by eight others");
  for (int round = 0; round < 50; ++round) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back(
          [lease = engine_->get(tensor_).lease().value()]() mutable { lease.release(); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  happened("nothing");
  expect_unharmed();
  expect_nothing_held();
}

TEST_F(MisuseTest, UseAfterClose) {
  mistake("use after close", "every call, and a lease that was taken before");
  const Lease held = engine_->get(tensor_).lease().value();
  ASSERT_TRUE(engine_->close().has_value());
  ASSERT_TRUE(engine_->close().has_value());
  std::vector<std::byte> memory(kBytes);
  EXPECT_EQ(clear(engine_->get(tensor_).wait().error()), "closed");
  EXPECT_EQ(clear(engine_->put(tensor_, memory).wait().error()), "closed");
  EXPECT_EQ(clear(engine_->get_into(tensor_, memory).wait().error()), "closed");
  EXPECT_EQ(clear(engine_->allocate(tensor_).error()), "closed");
  EXPECT_EQ(clear(engine_->commit(held).wait().error()), "closed");
  EXPECT_EQ(clear(engine_->plan().error()), "closed");
  EXPECT_EQ(clear(engine_->forget(tensor_).error()), "closed");
  EXPECT_EQ(clear(engine_->rename(tensor_, "u").error()), "closed");
  EXPECT_EQ(clear(engine_->state(tensor_).error()), "closed");
  EXPECT_EQ(clear(engine_->close_namespace(space_).error()), "closed");
  EXPECT_EQ(clear(engine_->declare(space_, {"u", DType::kU8, {5}, Role::kParam}).error()),
            "closed");
  EXPECT_EQ(clear(engine_->flush().error()), "closed") << "close() may have failed";
  engine_->prefetch(std::vector<TensorId>{tensor_});
  EXPECT_EQ(engine_->find(space_, "t"), std::nullopt);
  happened("every call: closed");
  EXPECT_EQ(std::memcmp(held.data(), content(kBytes, 1).data(), kBytes), 0);
  engine_.reset();
  EXPECT_EQ(std::memcmp(held.data(), content(kBytes, 1).data(), kBytes), 0);
  good_copy_is("in the lease");
}

TEST_F(MisuseTest, EmptyHandles) {
  mistake("handles that stand for nothing", "an empty Ticket, an empty Lease, an empty callback");
  const Ticket ticket;
  EXPECT_TRUE(ticket.done());
  EXPECT_EQ(clear(ticket.wait().error()), "invalid argument");
  EXPECT_EQ(clear(ticket.lease().error()), "invalid argument");
  EXPECT_TRUE(ticket.wait_for(std::chrono::seconds(1)).value().has_error());
  bool called = false;
  ticket.then([&called](const Ticket&) { called = true; });
  EXPECT_TRUE(called);
  engine_->get(tensor_).then({});
  EXPECT_EQ(clear(engine_->commit(Lease()).wait().error()), "invalid argument");
  happened("every call: invalid argument");
  expect_unharmed();
}

TEST_F(MisuseTest, AnotherEnginesLease) {
  mistake("another engine's lease", "commit of a lease that a second engine gave");
  std::unique_ptr<SwapEngine> first = std::exchange(engine_, nullptr);
  const NamespaceId space = space_;
  open_on("");
  const TensorId other = declare("other", kMiB);  // the same number as the first engine's
  put(other, content(kMiB, 7));
  const Lease foreign = engine_->get(other).lease().value();
  engine_.swap(first);
  space_ = space;
  ASSERT_EQ(other, tensor_);
  EXPECT_EQ(clear(engine_->commit(foreign).wait().error()), "invalid argument");
  happened("commit: invalid argument");
  expect_unharmed();
}

TEST_F(MisuseTest, PutWhileLeasedForWriting) {
  mistake("put while leased for writing", "the lease is dropped, and then committed, afterwards");
  {
    const Lease lease = engine_->get(tensor_, Access::kUpdate).lease().value();
    std::memset(lease.data(), 0, lease.bytes());
    put(tensor_, content(kBytes, 2));
    std::memset(lease.data(), 0xff, lease.bytes());
  }
  expect_good_copy(tensor_, content(kBytes, 2));
  Lease lease = engine_->get(tensor_, Access::kUpdate).lease().value();
  put(tensor_, content(kBytes, 3));
  const auto newest = content(kBytes, 4);
  std::memcpy(lease.data(), newest.data(), newest.size());
  ASSERT_TRUE(engine_->commit(lease).wait().has_value());
  lease.release();
  happened("all succeeds; the last one put or committed counts");
  expect_good_copy(tensor_, newest);
}

TEST_F(MisuseTest, CommitsInARow) {
  mistake("the same lease committed again", "three times, and once after the tensor was forgotten");
  Lease lease = engine_->allocate(tensor_).value();
  const auto data = content(kBytes, 1);
  std::memcpy(lease.data(), data.data(), data.size());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(engine_->commit(lease).wait().has_value());
  }
  expect_unharmed();
  const TensorId gone = declare("gone", kBytes);
  const Lease late = engine_->allocate(gone).value();
  ASSERT_TRUE(engine_->forget(gone).has_value());
  EXPECT_EQ(clear(engine_->commit(late).wait().error()), "unknown tensor");
  happened("succeeds; of what was forgotten: unknown tensor");
}

TEST_F(MisuseTest, WaitingOnTheIoThread) {
  mistake("blocking calls from a callback", "flush, close and wait on the I/O thread");
  const TensorId other = declare("other", kBytes);
  put(other, content(kBytes, 2));
  bool elsewhere = false;
  // A ticket that is done already calls back on this thread, where all of that is allowed.
  for (int tries = 0; tries < 1000 && !elsewhere; ++tries) {
    std::promise<void> called;
    engine_->get(tensor_).then([&, here = std::this_thread::get_id()](const Ticket&) {
      elsewhere = std::this_thread::get_id() != here;
      if (elsewhere) {
        EXPECT_EQ(clear(engine_->flush().error()), "invalid argument");
        EXPECT_EQ(clear(engine_->close().error()), "invalid argument");
        const Ticket late = engine_->get(other);  // read by this very thread, hence not done
        EXPECT_FALSE(late.done());
        EXPECT_EQ(clear(late.wait().error()), "invalid argument");
        EXPECT_EQ(clear(late.lease().error()), "invalid argument");
      }
      called.set_value();
    });
    called.get_future().wait();
  }
  ASSERT_TRUE(elsewhere);
  happened("every call: invalid argument");
  expect_unharmed();
  expect_content(other, content(kBytes, 2));
}

TEST_F(MisuseTest, Options) {
  mistake("options that make no sense", "blocks of 0 and 3 bytes, depth 0 and 1e6");
  const auto refused = [](SwapEngineOptions options) {
    options.warn = [](const Warning&) {};
    const auto engine = SwapEngine::open(std::move(options));
    return engine ? std::string("opened") : clear(engine.error());
  };
  for (const std::uint32_t bytes : {0U, 3U, 4097U}) {
    SwapEngineOptions options;
    options.io.block_bytes = bytes;
    EXPECT_EQ(refused(options), "invalid argument") << bytes;
  }
  for (const std::uint32_t depth : {0U, 1'000'000U}) {
    SwapEngineOptions options;
    options.io.depth = depth;
    EXPECT_EQ(refused(options), "invalid argument") << depth;
  }
  happened("open: invalid argument");
  expect_unharmed();
}

}  // namespace
}  // namespace penstock
