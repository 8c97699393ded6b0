#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/faults/fault_fixture.h"

namespace penstock {
namespace {

constexpr const char* kCorrupt = "corrupt data";
constexpr std::uint64_t kBytes = 4 * kMiB;

EngineConfig with(IntegrityLevel level) {
  EngineConfig config;
  config.integrity = level;
  return config;
}

/// Drives that lie: what they return is not what was written. Every lie must be
/// seen, at the read.
class WrongBytesTest : public FaultOnEveryEngine {
 protected:
  /// `a` and `b`, `a` in its third generation, which lies where its first one
  /// did.
  void put_generations(const std::string& path, IntegrityLevel level) {
    open_on(path, 8 * kMiB, 0, with(level));
    a_ = declare("a", kBytes);
    b_ = declare("b", kBytes);
    put(a_, content(kBytes, 1));
    put(b_, content(kBytes, 9));
    put_over(a_, content(kBytes, 2));
    put_over(a_, content(kBytes, 3));
  }
  /// Ends when what it replaces has given up its place, a moment after the ticket ended.
  void put_over(TensorId tensor, const std::vector<std::byte>& data) {
    const std::uint64_t before = engine_->stats().drive_bytes;
    put(tensor, data);
    ASSERT_TRUE(eventually([&] { return engine_->stats().drive_bytes == before; }));
  }
  void expect_seen(const std::string& operation) {
    const Result<void> read = engine_->get(a_).wait();
    expect_failed(operation, read, kCorrupt);
    EXPECT_EQ(read.error().tensor, "a");
  }
  void expect_all_good() {
    expect_good_copy(a_, content(kBytes, 3));
    expect_good_copy(b_, content(kBytes, 9));
  }

  TensorId a_{};
  TensorId b_{};
};

TEST_P(WrongBytesTest, StaleBlocks) {
  fault_is("stale reads", "FUSE drive that returns what blocks held before their last write");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_generations(drive.path(), IntegrityLevel::kSampled);
  drive.set_rules("reads stale");
  expect_seen("get");
  drive.set_rules("clear");
  expect_all_good();
}

TEST_P(WrongBytesTest, StaleDataUnderAGoodIdentity) {
  fault_is("stale reads of the data alone", "FUSE drive, stale within a tensor's first MiB");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_generations(drive.path(), IntegrityLevel::kSampled);
  drive.set_rules("reads stale 0 1048576");
  expect_seen("get");
  drive.set_rules("clear");
  expect_all_good();
}

TEST_P(WrongBytesTest, MisdirectedReads) {
  fault_is("misdirected reads", "FUSE drive that returns the blocks behind those asked for");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_generations(drive.path(), IntegrityLevel::kSampled);
  drive.set_rules("reads shifted");
  expect_seen("get");
  drive.set_rules("clear");
  expect_all_good();
}

TEST_P(WrongBytesTest, FlippedBits) {
  fault_is("flipped bits", "FUSE drive that turns one bit of every 4 KiB; `integrity: full`");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_generations(drive.path(), IntegrityLevel::kFull);
  drive.set_rules("reads flip");
  expect_seen("get");
  drive.set_rules("clear");
  drive.set_rules("reads flip 0 4096");
  expect_seen("get, a single bit");
  drive.set_rules("clear");
  expect_all_good();
}

TEST_P(WrongBytesTest, LostWrites) {
  fault_is("lost writes", "FUSE drive that says done and writes nothing");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_generations(drive.path(), IntegrityLevel::kSampled);
  drive.set_rules("writes lost");
  put(a_, content(kBytes, 4));
  drive.set_rules("clear");
  expect_seen("get");
  expect_good_copy(b_, content(kBytes, 9));
  good_copy_is("of every other tensor");
  put(a_, content(kBytes, 5));
  expect_content(a_, content(kBytes, 5));
}

TEST_P(WrongBytesTest, TornWrites) {
  fault_is("torn writes", "FUSE drive that says done and writes the first half of each request");
  FaultyDrive drive;
  PENSTOCK_NEED(drive);
  put_generations(drive.path(), IntegrityLevel::kSampled);
  drive.set_rules("writes torn 0 1048576");
  put_over(a_, content(kBytes, 4));  // lies behind b: not touched
  expect_content(a_, content(kBytes, 4));
  put(a_, content(kBytes, 5));  // at the beginning again: torn
  drive.set_rules("clear");
  expect_seen("get");
  expect_good_copy(b_, content(kBytes, 9));
  good_copy_is("of every other tensor");
}

/// Every scratch file that this process has open below `directory`.
std::vector<int> files_in(const std::string& directory) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(directory + "/")) {
      found.push_back(std::stoi(entry.path().filename().string()));
    }
  }
  return found;
}

TEST_P(WrongBytesTest, AFileThatWasCutShort) {
  fault_is("swap file truncated", "ftruncate to 0 behind the engine's back");
  put_generations("", IntegrityLevel::kSampled);
  const std::vector<int> files = files_in(directory_.path());
  ASSERT_FALSE(files.empty());
  const Lease held = engine_->get(b_).lease().value();
  for (const int file : files) {
    ASSERT_EQ(::ftruncate(file, 0), 0);
  }
  const Result<void> read = engine_->get(a_).wait();
  ASSERT_TRUE(read.has_error());
  happened("get: " + clear(read.error()));
  expect_good_copy(b_, content(kBytes, 9));
  good_copy_is("of what is in memory");
  put(a_, content(kBytes, 4));
  expect_content(a_, content(kBytes, 4));
  happened("the next put is read back");
}

TEST_P(WrongBytesTest, AFileWhoseBytesWereReplaced) {
  fault_is("swap file overwritten", "the bytes of another engine's tensor of the same size");
  put_generations("", IntegrityLevel::kSampled);
  // Another store writes the very same tensors, so that everything but the
  // store is the same.
  const std::vector<int> files = files_in(directory_.path());
  const NamespaceId space = space_;
  std::unique_ptr<SwapEngine> other = std::exchange(engine_, nullptr);
  put_generations("", IntegrityLevel::kSampled);
  std::vector<int> theirs;
  for (const int file : files_in(directory_.path())) {
    if (std::find(files.begin(), files.end(), file) == files.end()) {
      theirs.push_back(file);
    }
  }
  ASSERT_EQ(files.size(), theirs.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::filesystem::path from = "/proc/self/fd/" + std::to_string(theirs[i]);
    const std::filesystem::path to = "/proc/self/fd/" + std::to_string(files[i]);
    std::filesystem::copy_file(from, to, std::filesystem::copy_options::overwrite_existing);
  }
  engine_.swap(other);
  space_ = space;
  expect_seen("get");
  put(a_, content(kBytes, 4));
  expect_good_copy(a_, content(kBytes, 4));
  good_copy_is("of what is put afterwards");
}

PENSTOCK_ON_EVERY_ENGINE(WrongBytesTest);

}  // namespace
}  // namespace penstock
