#include "swap/device/direct_storage.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "swap/device/cufile_storage.h"
#include "swap/device/host_device.h"
#include "tests/device/cufile_double.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::array kDouble{PENSTOCK_CUFILE_DOUBLE};
constexpr std::array kOldDouble{PENSTOCK_CUFILE_DOUBLE_OLD};

std::vector<std::byte> random_content(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> content(bytes);
  for (std::byte& byte : content) {
    byte = static_cast<std::byte>(random());
  }
  return content;
}

/// Host memory, which is what the double takes for a device's.
DeviceSpan span_of(std::vector<std::byte>& memory) {
  return {reinterpret_cast<std::uintptr_t>(memory.data()), memory.size()};
}

/// A file without a name, and closed last.
struct Temporary {
  Temporary() {
    std::string path = testing::TempDir() + "direct_storage_XXXXXX";
    descriptor = ::mkstemp(path.data());
    EXPECT_GE(descriptor, 0);
    ::unlink(path.c_str());
  }
  ~Temporary() { ::close(descriptor); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  int descriptor;
};

class DirectStorageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(kDouble[0]).empty()) {
      GTEST_SKIP() << "built without cuFile's header (cufile.h)";
    }
    void* const library = ::dlopen(kDouble[0], RTLD_NOW);
    ASSERT_NE(library, nullptr) << ::dlerror();
    double_ = static_cast<CufileDouble*>(::dlsym(library, "cufile_double"));
    ASSERT_NE(double_, nullptr);
    *double_ = CufileDouble{};
  }

  static std::shared_ptr<DirectStorage> open() {
    Result<std::shared_ptr<DirectStorage>> storage = open_cufile(kDouble);
    return storage.has_error() ? nullptr : *storage;
  }
  static std::string reason() {
    const DirectStorageFacts facts = look_for_cufile(kDouble);
    EXPECT_EQ(facts.runtime, "cuda");
    EXPECT_EQ(facts.library, "cuFile");
    EXPECT_EQ(facts.version, "1.15");
    EXPECT_TRUE(facts.is_present);
    EXPECT_EQ(facts.is_direct, facts.reason.empty());
    return facts.reason;
  }
  /// The error of a read, and of a write, of 100 bytes at 7.
  std::pair<Error, Error> errors() {
    const std::shared_ptr<DirectStorage> storage = open();
    const Result<DirectFile> file = storage->register_file(file_.descriptor, "/nvme/a");
    std::vector<std::byte> memory(100);
    const Result<void> read = storage->read(*file, 7, span_of(memory));
    const Result<void> written = storage->write(*file, 7, span_of(memory));
    EXPECT_TRUE(read.has_error());
    EXPECT_TRUE(written.has_error());
    return {read.has_error() ? read.error() : Error{},
            written.has_error() ? written.error() : Error{}};
  }

  CufileDouble* double_ = nullptr;
  Temporary file_;
};

TEST_F(DirectStorageTest, BytesBothWaysAtAnySize) {
  const std::shared_ptr<DirectStorage> storage = open();
  ASSERT_NE(storage, nullptr);
  EXPECT_EQ(storage->library(), "cuFile");
  const Result<DirectFile> file = storage->register_file(file_.descriptor, "/nvme/a");
  ASSERT_TRUE(file.has_value()) << file.error().message;
  EXPECT_EQ(file->path(), "/nvme/a");
  std::uint64_t offset = 0;
  for (const std::size_t bytes : {1U, 4095U, 4096U, 4097U, 1'000'003U, 4'194'304U}) {
    std::vector<std::byte> content = random_content(bytes, bytes);
    ASSERT_TRUE(storage->write(*file, offset, span_of(content)));
    std::vector<std::byte> on_file(bytes);
    ASSERT_EQ(::pread(file_.descriptor, on_file.data(), bytes, static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes));
    EXPECT_EQ(on_file, content);
    std::vector<std::byte> back(bytes);
    ASSERT_TRUE(storage->read(*file, offset, span_of(back)));
    EXPECT_EQ(back, content);
    offset += bytes + 13;
  }
  EXPECT_EQ(double_->transfers, 12);
  EXPECT_TRUE(storage->read(*file, 0, DeviceSpan{}));
  EXPECT_EQ(double_->transfers, 12);
}

TEST_F(DirectStorageTest, ShortAndInterruptedTransfersAreContinued) {
  const std::shared_ptr<DirectStorage> storage = open();
  ASSERT_NE(storage, nullptr);
  const Result<DirectFile> file = storage->register_file(file_.descriptor, "/nvme/a");
  ASSERT_TRUE(file);
  double_->most_bytes = 1000;
  double_->interruptions = 3;
  std::vector<std::byte> content = random_content(10'001, 1);
  ASSERT_TRUE(storage->write(*file, 5, span_of(content)));
  EXPECT_EQ(double_->transfers, 14);
  double_->interruptions = 2;
  std::vector<std::byte> back(content.size());
  ASSERT_TRUE(storage->read(*file, 5, span_of(back)));
  EXPECT_EQ(double_->transfers, 27);
  EXPECT_EQ(back, content);
}

TEST_F(DirectStorageTest, ManyThreadsOnOneFile) {
  const std::shared_ptr<DirectStorage> storage = open();
  ASSERT_NE(storage, nullptr);
  const Result<DirectFile> file = storage->register_file(file_.descriptor, "/nvme/a");
  ASSERT_TRUE(file);
  double_->most_bytes = 5000;
  std::vector<std::jthread> threads;
  for (std::uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::vector<std::byte> content = random_content(70'001, number);
      std::vector<std::byte> back(content.size());
      for (int turn = 0; turn < 20; ++turn) {
        EXPECT_TRUE(storage->write(*file, number * 100'000, span_of(content)));
        EXPECT_TRUE(storage->read(*file, number * 100'000, span_of(back)));
        EXPECT_EQ(back, content);
      }
    });
  }
}

TEST_F(DirectStorageTest, ErrorsOfTheDrive) {
  double_->transfer_errno = ENOSPC;
  const auto [read, written] = errors();
  EXPECT_EQ(read.system_errno(), ENOSPC);
  EXPECT_EQ(written.system_errno(), ENOSPC);
  EXPECT_EQ(read.path, "/nvme/a");
  EXPECT_EQ(read.message,
            "cuFile cannot read 100 B of /nvme/a at offset 7: No space left on device");
  EXPECT_EQ(written.message,
            "cuFile cannot write 100 B of /nvme/a at offset 7: No space left on device");
}

TEST_F(DirectStorageTest, ErrorsOfTheLibraryByName) {
  double_->transfer_error = 5013;
  const auto [read, written] = errors();
  EXPECT_EQ(read.code, make_error_code(Fault::kUnsupported));
  EXPECT_EQ(read.path, "/nvme/a");
  EXPECT_EQ(read.message,
            "cuFile cannot read 100 B of /nvme/a at offset 7: invalid pointer memory type "
            "(CU_FILE_CUDA_MEMORY_TYPE_INVALID, 5013)");
  EXPECT_THAT(written.message, StartsWith("cuFile cannot write"));
  double_->transfer_error = 5036;
  EXPECT_EQ(errors().first.code, make_error_code(Fault::kExhausted));
  double_->transfer_error = 1'000'000;
  EXPECT_THAT(errors().first.message, EndsWith("at offset 7: error 1000000"));
  double_->transfer_error = 5999;
  EXPECT_THAT(errors().first.message, EndsWith("unknown cufile error (newer than penstock, 5999)"));
}

TEST_F(DirectStorageTest, TransfersThatGoNowhere) {
  double_->most_bytes = 0;
  const auto [read, written] = errors();
  EXPECT_EQ(read.system_errno(), ENODATA);
  EXPECT_THAT(read.message, HasSubstr("the file ends there"));
  EXPECT_EQ(written.system_errno(), EIO);
}

TEST_F(DirectStorageTest, MoreThanWasAskedForIsNotBelieved) {
  double_->too_many = 1;
  ASSERT_EQ(::ftruncate(file_.descriptor, 1000), 0);
  const auto [read, written] = errors();
  EXPECT_EQ(read.system_errno(), EIO);
  EXPECT_EQ(written.system_errno(), EIO);
}

TEST_F(DirectStorageTest, TheEndOfTheFileIsReportedWhereItIs) {
  const std::shared_ptr<DirectStorage> storage = open();
  ASSERT_NE(storage, nullptr);
  const Result<DirectFile> file = storage->register_file(file_.descriptor, "/nvme/a");
  ASSERT_TRUE(file);
  std::vector<std::byte> memory(3000);
  ASSERT_TRUE(storage->write(*file, 0, span_of(memory)));
  const Result<void> read = storage->read(*file, 1000, span_of(memory));
  ASSERT_TRUE(read.has_error());
  EXPECT_EQ(read.error().system_errno(), ENODATA);
  EXPECT_THAT(read.error().message, HasSubstr("at offset 3000: the file ends there"));
}

TEST_F(DirectStorageTest, FilesAreForgottenOnce) {
  const std::shared_ptr<DirectStorage> storage = open();
  ASSERT_NE(storage, nullptr);
  Temporary second;
  {
    Result<DirectFile> one = storage->register_file(file_.descriptor, "/nvme/a");
    Result<DirectFile> two = storage->register_file(second.descriptor, "/nvme/b");
    ASSERT_TRUE(one && two);
    DirectFile moved = std::move(*one);
    EXPECT_EQ(double_->deregistered, 0);
    moved = std::move(*two);
    EXPECT_EQ(moved.path(), "/nvme/b");
  }
  EXPECT_EQ(double_->registered, 2);
  EXPECT_EQ(double_->deregistered, 2);
}

TEST_F(DirectStorageTest, AFileThatTheLibraryRefuses) {
  const std::shared_ptr<DirectStorage> storage = open();
  ASSERT_NE(storage, nullptr);
  double_->register_error = 5008;
  const Result<DirectFile> refused = storage->register_file(file_.descriptor, "/nvme/a");
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().code, make_error_code(Fault::kUnsupported));
  EXPECT_EQ(refused.error().path, "/nvme/a");
  EXPECT_EQ(refused.error().message,
            "cuFile cannot use /nvme/a: GPUDirect Storage not supported on current file "
            "(CU_FILE_IO_NOT_SUPPORTED, 5008)");
  double_->register_error = 5011;
  double_->cuda_error = 201;
  const Result<DirectFile> no_context = storage->register_file(file_.descriptor, "/nvme/a");
  ASSERT_TRUE(no_context.has_error());
  EXPECT_THAT(no_context.error().message,
              EndsWith("(CU_FILE_CUDA_DRIVER_ERROR, 5011, CUDA error 201)"));
}

TEST_F(DirectStorageTest, AFileOfAnotherStorage) {
  const std::shared_ptr<DirectStorage> one = open();
  const std::shared_ptr<DirectStorage> other = open();
  ASSERT_TRUE(one != nullptr && other != nullptr);
  const Result<DirectFile> file = one->register_file(file_.descriptor, "/nvme/a");
  ASSERT_TRUE(file);
  std::vector<std::byte> memory(8);
  const Result<void> read = other->read(*file, 0, span_of(memory));
  ASSERT_TRUE(read.has_error());
  EXPECT_EQ(read.error().code, make_error_code(Fault::kInvalidArgument));
  const Result<void> too_far = one->read(*file, ~std::uint64_t{0}, span_of(memory));
  ASSERT_TRUE(too_far.has_error());
  EXPECT_EQ(too_far.error().code, make_error_code(Fault::kInvalidArgument));
  EXPECT_EQ(double_->transfers, 0);
}

TEST_F(DirectStorageTest, DirectByNvidiaFs) {
  EXPECT_EQ(reason(), "");
  EXPECT_FALSE(double_->may_copy);
  EXPECT_EQ(double_->begun, 1);
}

TEST_F(DirectStorageTest, DirectByP2p) {
  double_->has_nvidia_fs = false;
  double_->has_p2p = true;
  EXPECT_EQ(reason(), "");
}

TEST_F(DirectStorageTest, ThroughHostMemoryAlone) {
  double_->has_nvidia_fs = false;
  EXPECT_THAT(reason(), StartsWith("nvidia-fs is not loaded"));
  const Result<std::shared_ptr<DirectStorage>> storage = open_cufile(kDouble);
  ASSERT_TRUE(storage.has_error());
  EXPECT_EQ(storage.error().code, make_error_code(Fault::kUnsupported));
  EXPECT_THAT(storage.error().message, StartsWith("nvidia-fs is not loaded"));
}

TEST_F(DirectStorageTest, ConfiguredToCopy) {
  double_->copies_always = true;
  EXPECT_THAT(reason(), HasSubstr("force_compat_mode"));
}

TEST_F(DirectStorageTest, BegunByAnotherPartOfTheProcess) {
  double_->is_begun_before = true;
  EXPECT_THAT(reason(), HasSubstr("allow_compat_mode"));
  EXPECT_EQ(double_->begun, 0);
  double_->may_copy = false;
  EXPECT_EQ(reason(), "");
}

TEST_F(DirectStorageTest, ALibraryThatCannotBegin) {
  double_->begin_error = 5004;
  EXPECT_EQ(reason(),
            "cuFile cannot begin: nvidia-fs driver version mismatch "
            "(CU_FILE_DRIVER_VERSION_MISMATCH, 5004)");
  double_->begin_error = 5026;
  EXPECT_EQ(reason(), "");
}

TEST_F(DirectStorageTest, ALibraryThatIsTooOld) {
  const DirectStorageFacts facts = look_for_cufile(kOldDouble);
  EXPECT_FALSE(facts.is_present);
  EXPECT_FALSE(facts.is_direct);
  EXPECT_THAT(facts.reason, AllOf(HasSubstr("has no cuFileGetParameterBool"), EndsWith("too old")));
  EXPECT_TRUE(open_cufile(kOldDouble).has_error());
}

TEST_F(DirectStorageTest, ALibraryThatIsNotThere) {
  constexpr std::array kNames{"libpenstock-has-no-such.so.9"};
  const DirectStorageFacts facts = look_for_cufile(kNames);
  EXPECT_FALSE(facts.is_present);
  EXPECT_FALSE(facts.is_direct);
  EXPECT_EQ(facts.version, "");
  EXPECT_THAT(facts.reason, HasSubstr("libpenstock-has-no-such.so.9"));
}

TEST(DirectStorage, OfEachRuntimeOrWhyNot) {
  for (const auto& [runtime, library] : {std::pair{"cuda", "cuFile"}, {"hip", "hipFile"}}) {
    const DirectStorageFacts facts = look_for_direct_storage(runtime);
    EXPECT_EQ(facts.runtime, runtime);
    EXPECT_EQ(facts.library, library);
    EXPECT_EQ(facts.is_direct, facts.reason.empty()) << facts.reason;
    EXPECT_TRUE(facts.is_present || !facts.is_direct);
  }
  EXPECT_THAT(look_for_direct_storage("tpu").reason, HasSubstr("'tpu'"));
}

TEST(DirectStorage, ADeviceThatHasNone) {
  const Result<std::shared_ptr<DirectStorage>> storage = open_direct_storage(*HostDevice::make());
  ASSERT_TRUE(storage.has_error());
  EXPECT_EQ(storage.error().code, make_error_code(Fault::kUnsupported));
  EXPECT_THAT(storage.error().message, HasSubstr("'host'"));
}

}  // namespace
}  // namespace penstock
