#include "io/registered_buffers.h"

#include <gtest/gtest.h>
#include <liburing.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "io/uring_engine.h"
#include "tests/io/temp_directory.h"
#include "tests/io/test_op.h"

namespace penstock {
namespace {

std::uint64_t pinned_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPin:")) {
      return std::stoull(line.substr(6)) * kKiB;
    }
  }
  return 0;
}

class RegisteredBuffersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const int result = ::io_uring_queue_init(4, &ring_, 0); result < 0) {
      GTEST_SKIP() << "no io_uring here: errno " << -result;
    }
    made_ = true;
    buffers_.emplace(ring_);
    if (!buffers_->usable()) {
      GTEST_SKIP() << buffers_->add({}).error().message;
    }
  }
  ~RegisteredBuffersTest() override {
    if (made_) {
      ::io_uring_queue_exit(&ring_);
    }
  }

  io_uring ring_{};
  bool made_ = false;
  std::optional<RegisteredBuffers> buffers_;
};

TEST_F(RegisteredBuffersTest, FindsWhatLiesWithinAsAWhole) {
  const Memory memory = pages(4 * kMiB);
  const std::span<std::byte> middle = memory.span().subspan(kMiB, kMiB);
  ASSERT_TRUE(buffers_->add(middle).has_value());
  EXPECT_TRUE(buffers_->find(middle.data(), middle.size()));
  EXPECT_TRUE(buffers_->find(middle.data() + 100, 1));
  EXPECT_TRUE(buffers_->find(middle.data() + kMiB - 1, 1));
  EXPECT_FALSE(buffers_->find(middle.data() - 1, 2));
  EXPECT_FALSE(buffers_->find(middle.data() + 1, kMiB));
  EXPECT_FALSE(buffers_->find(middle.data() + kMiB, 1));
  EXPECT_FALSE(buffers_->find(memory.data(), 1));
  buffers_->remove(middle);
  EXPECT_FALSE(buffers_->find(middle.data(), 1));
}

// Of an entry with huge and small pages the kernel would make a list of small ones.
TEST_F(RegisteredBuffersTest, HugePagesAndTheSmallOnesBehindThemAreTwoEntries) {
  const Memory memory = pages(3 * kMiB);
  ASSERT_TRUE(buffers_->add(memory.span()).has_value());
  std::byte* const data = memory.data();
  const auto huge = buffers_->find(data, 2 * kMiB);
  const auto small = buffers_->find(data + 2 * kMiB, kMiB);
  ASSERT_TRUE(huge && small);
  EXPECT_NE(*huge, *small);
  EXPECT_FALSE(buffers_->find(data + kMiB, 2 * kMiB));
  EXPECT_EQ(buffers_->bytes_to_end(data), 2 * kMiB);
  EXPECT_EQ(buffers_->bytes_to_end(data + kMiB), kMiB);
  EXPECT_EQ(buffers_->bytes_to_end(data + 2 * kMiB), kMiB);
  EXPECT_GT(buffers_->bytes_to_end(data + 3 * kMiB), kGiB);
  buffers_->remove(memory.span());
  EXPECT_FALSE(buffers_->find(data, 1));
  EXPECT_FALSE(buffers_->find(data + 2 * kMiB, 1));
}

TEST_F(RegisteredBuffersTest, ARequestEndsWithItsEntry) {
  IoEngineOptions options;
  options.block_bytes = 4 * kMiB;
  const auto engine = std::move(make_uring_engine(options)).value();
  const Memory memory = pages(3 * kMiB);
  const Memory other = pages(3 * kMiB);
  for (std::size_t i = 0; i < memory.bytes(); ++i) {
    memory.data()[i] = static_cast<std::byte>(i * 31 / 7);
  }
  ASSERT_TRUE(engine->register_memory(memory.span()).has_value());
  const TempDirectory directory;
  const File file = std::move(File::create_scratch(directory.path())).value();
  TestOp write(IoKind::kWrite, file, memory.span(), 0);
  engine->submit(write);
  run_until_idle(*engine);
  EXPECT_EQ(write.error, 0);
  EXPECT_EQ(engine->stats().requests, 2U);
  TestOp read(IoKind::kRead, file, other.span(), 0);
  engine->submit(read);
  run_until_idle(*engine);
  EXPECT_EQ(read.error, 0);
  EXPECT_EQ(engine->stats().requests, 3U);
  EXPECT_EQ(std::memcmp(memory.data(), other.data(), memory.bytes()), 0);
  engine->unregister_memory(memory.span());
}

TEST_F(RegisteredBuffersTest, PinsNoMoreThanItIsGivenAndLetsGo) {
  const std::uint64_t before = pinned_bytes();
  std::vector<Memory> memory;
  std::uint64_t bytes = 0;
  for (const std::uint64_t size : {4 * kKiB, 3 * kMiB + 4 * kKiB, 2 * kMiB, kMiB}) {
    memory.push_back(pages(size));
    bytes += size;
    const Result<void> added = buffers_->add(memory.back().span());
    if (!added) {
      GTEST_SKIP() << added.error().message;
    }
    EXPECT_LE(pinned_bytes() - before, bytes) << "huge pages must not count beyond the mapping";
  }
  EXPECT_EQ(pinned_bytes() - before, bytes);
  for (const Memory& piece : memory) {
    buffers_->remove(piece.span());
  }
  EXPECT_EQ(pinned_bytes(), before);
}

TEST_F(RegisteredBuffersTest, AFullTableIsAnErrorUntilThereIsRoom) {
  const Memory memory = pages(600 * kBlockBytes);
  const auto block = [&](std::size_t index) {
    return memory.span().subspan(index * kBlockBytes, kBlockBytes);
  };
  std::size_t added = 0;
  while (buffers_->add(block(added)).has_value()) {
    ++added;
    ASSERT_LT(added, 600U);
  }
  EXPECT_EQ(added, 512U);
  EXPECT_EQ(buffers_->add(block(added)).error().code, Fault::kExhausted);
  buffers_->remove(block(77));
  EXPECT_TRUE(buffers_->add(block(added)).has_value());
  EXPECT_TRUE(buffers_->find(block(added).data(), kBlockBytes));
  EXPECT_FALSE(buffers_->find(block(77).data(), kBlockBytes));
}

TEST_F(RegisteredBuffersTest, MemoryThatIsNotThereIsAnErrorAndLeavesNoTrace) {
  std::byte* const nowhere = pages(8 * kKiB).data();  // and unmapped again
  const Result<void> added = buffers_->add({nowhere, 8 * kKiB});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().system_errno(), EFAULT);
  EXPECT_FALSE(buffers_->find(nowhere, 1));
}

// A process without the privilege to lock, and with `ulimit -l 64`.
void drop_memory_privileges() {
  const rlimit limit{64 * kKiB, 64 * kKiB};
  ::setrlimit(RLIMIT_MEMLOCK, &limit);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) == 0) {
    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    data[CAP_TO_INDEX(CAP_IPC_LOCK)].permitted &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    ::syscall(SYS_capset, &header, data);
  }
}

TEST(RegisteredBuffersDeathTest, TooLittleMemlockIsAnErrorAndIoGoesOn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (const auto engine = make_uring_engine({}); !engine) {
    GTEST_SKIP() << engine.error().message;
  }
  const TempDirectory directory;
  EXPECT_EXIT(
      {
        drop_memory_privileges();
        const auto engine = std::move(make_uring_engine({})).value();
        const Memory memory = pages(8 * kMiB);
        const Result<void> registered = engine->register_memory(memory.span());
        const File file = std::move(File::create_scratch(directory.path())).value();
        TestOp op(IoKind::kWrite, file, memory.span(), 0);
        engine->submit(op);
        run_until_idle(*engine);
        const bool good = registered.has_error() && registered.error().system_errno() == ENOMEM &&
                          op.calls == 1 && op.error == 0;
        std::fputs(registered.has_error() ? registered.error().message.c_str() : "", stderr);
        std::_Exit(good ? 0 : 1);
      },
      testing::ExitedWithCode(0), "ulimit -l");
}

}  // namespace
}  // namespace penstock
