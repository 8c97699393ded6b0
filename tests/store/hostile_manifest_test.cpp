// Manifests with valid seals that an attacker has made up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "bindings/archive/store_verification.h"
#include "swap/store/manifest_batch.h"
#include "swap/store/manifest_state.h"
#include "tests/store/durable_fixture.h"

namespace penstock {
namespace {

using Access = DurableStoreOptions::Access;
using Bytes = std::vector<std::byte>;
using testing::HasSubstr;

constexpr std::uint64_t kHostileStore = 0x77;

Bytes hostile_manifest(const std::vector<ManifestRecord>& records) {
  Bytes bytes = encode_head({ManifestHead::kVersion, kHostileStore, 1});
  const Bytes batch = encode_batch(kHostileStore, 1, records);
  bytes.insert(bytes.end(), batch.begin(), batch.end());
  return bytes;
}

DriveRecord hostile_drive(std::uint32_t index, const std::string& directory,
                          const std::string& file = data_file_name(kHostileStore)) {
  return {index, directory, file, 1.0, std::nullopt};
}

StoreEntry hostile_entry(const std::string& name, std::uint64_t offset, std::uint64_t bytes) {
  StoreEntry entry;
  entry.info = {name, DType::kU8, {bytes}, Role::kParam};
  entry.stored.identity.store = kHostileStore;
  entry.stored.identity.bytes = bytes;
  entry.stored.identity.level = 2;
  entry.stored.extent = {offset, entry.stored.layout_bytes()};
  return entry;
}

class HostileManifestTest : public DurableFixture {
 protected:
  HostileManifestTest() { std::filesystem::create_directory(home_); }

  void write(const std::string& path, const Bytes& bytes) const {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  /// The store is refused, to readers and writers, and makes no file.
  void expect_refused(const std::vector<ManifestRecord>& records, const std::string& why) {
    write(home_ + "/manifest", hostile_manifest(records));
    for (const Access access : {Access::kRead, Access::kWrite}) {
      const Opened opened = try_open({}, os_file_system(), access);
      ASSERT_TRUE(opened.has_error()) << why;
      EXPECT_THAT(opened.error().message, HasSubstr(why));
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(home_), {}), 1);
    }
  }

  const std::string home_ = directory_ / "store";
};

TEST_F(HostileManifestTest, NamesNoFileButTheStoresOwn) {
  for (const char* const name : {"../victim", "manifest", "lock", "spare", "/etc/passwd", "x.data",
                                 "tensors-0000000000000078.data"}) {
    write(home_ + "/manifest", hostile_manifest({hostile_drive(0, "", name)}));
    for (const Access access : {Access::kRead, Access::kWrite}) {
      const Opened opened = try_open({}, os_file_system(), access);
      ASSERT_TRUE(opened.has_error()) << name;
      EXPECT_EQ(opened.error().code, make_error_code(Fault::kCorrupt)) << opened.error().message;
    }
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(home_), {}), 1);
}

TEST_F(HostileManifestTest, NamesNoDirectoryTwice) {
  expect_refused({hostile_drive(0, ""), hostile_drive(1, "")}, "two drives in the directory .");
  expect_refused({hostile_drive(0, ""), hostile_drive(1, "/a"), hostile_drive(2, "/a")},
                 "two drives in the directory /a");
}

TEST_F(HostileManifestTest, TheStoresDirectoryByAnotherNameIsNotOpenedAgain) {
  write(home_ + "/manifest", hostile_manifest({hostile_drive(0, ""), hostile_drive(1, home_)}));
  const auto store = open();
  ASSERT_EQ(store->drive_states().size(), 2U);
  EXPECT_TRUE(store->drive_states()[1].missing);
}

TEST_F(HostileManifestTest, NamesThatNoTensorCanHave) {
  for (const std::string& name :
       {std::string("__metadata__"), std::string(), std::string("a\0b", 3), std::string("\xff"),
        std::string("a\nb"), std::string(5000, 'x')}) {
    expect_refused({hostile_drive(0, ""), hostile_entry(name, 0, 4)}, "does not understand");
  }
  expect_refused({hostile_drive(0, ""), NoteRecord{"\xff", "x"}}, "does not understand");
}

TEST_F(HostileManifestTest, AnExtentBeyondTheFileIsNotRead) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 61;
  write(home_ + "/manifest",
        hostile_manifest({hostile_drive(0, ""), hostile_entry("huge", 0, kHuge)}));
  write(home_ + "/" + data_file_name(kHostileStore), Bytes(8 * kKiB));
  const auto store = open_to_read();
  const VerifyReport report = verify_store(*store, *queue_).value();
  EXPECT_EQ(report.bytes, 0U);
  ASSERT_EQ(report.bad.size(), 1U);
  EXPECT_THAT(report.bad[0].message, HasSubstr("is cut short: it has 8192 bytes"));
  const Opened writer = try_open();
  ASSERT_TRUE(writer.has_error());
  EXPECT_THAT(writer.error().message, HasSubstr("is cut short"));
}

/// Bytes of a manifest that is nearly all zeros, and what reading it takes.
struct Sparse {
  Bytes front;
  std::uint64_t size = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t largest_read = 0;

  ManifestBytes source() {
    return {size, [this](std::uint64_t offset, std::span<std::byte> target) -> Result<void> {
              read_bytes += target.size();
              largest_read = std::max<std::uint64_t>(largest_read, target.size());
              std::ranges::fill(target, std::byte{0});
              if (offset < front.size()) {
                const std::size_t there = std::min(front.size() - offset, target.size());
                std::memcpy(target.data(), front.data() + offset, there);
              }
              return {};
            }};
  }
};

/// The header of a batch that claims this many bytes of records, sealed as it should be.
Bytes lying_header(std::uint64_t sequence, std::uint64_t bytes) {
  // A batch of that many records is not made for it: the length is in the header of one record
  // less.
  Bytes block = encode_batch(kHostileStore, sequence, {});
  std::memcpy(block.data() + 24, &bytes, sizeof(bytes));
  const std::uint64_t seal = checksum(IntegrityLevel::kFull, std::span(block).first(40));
  std::memcpy(block.data() + 40, &seal, sizeof(seal));
  return block;
}

TEST_F(HostileManifestTest, ASparseOneCostsNoMemory) {
  Sparse sparse{hostile_manifest({hostile_drive(0, "")}), kGiB};
  const Bytes header = lying_header(2, kGiB / 2);
  sparse.front.insert(sparse.front.end(), header.begin(), header.end());
  const Result<ManifestState> state = parse_manifest(sparse.source(), "m");
  ASSERT_TRUE(state.has_value()) << state.error().message;
  EXPECT_EQ(state->sequence, 1U);
  EXPECT_LE(sparse.largest_read, 4 * kMiB);
  EXPECT_LE(sparse.read_bytes, 2 * kGiB);
}

TEST_F(HostileManifestTest, HeadersThatClaimTheRestAreNotHashedEach) {
  constexpr std::uint64_t kHeaders = 20'000;
  Sparse sparse{hostile_manifest({hostile_drive(0, "")})};
  for (std::uint64_t i = 0; i < kHeaders; ++i) {
    const Bytes header = lying_header(i % 2 == 0 ? 1 : 2, (kHeaders - i) * kBlockBytes - 48);
    sparse.front.insert(sparse.front.end(), header.begin(), header.end());
  }
  sparse.size = sparse.front.size();
  EXPECT_TRUE(parse_manifest(sparse.source(), "m").has_value());
  EXPECT_LE(sparse.read_bytes, 3 * sparse.size);
}

TEST_F(HostileManifestTest, AHeaderOfALaterBatchSaysThatTheOneBeforeWasWhole) {
  Sparse sparse{hostile_manifest({hostile_drive(0, "")})};
  const Bytes torn(kBlockBytes);
  sparse.front.insert(sparse.front.end(), torn.begin(), torn.end());
  const Bytes later = lying_header(3, kGiB);
  sparse.front.insert(sparse.front.end(), later.begin(), later.end());
  sparse.size = sparse.front.size();
  const Result<ManifestState> state = parse_manifest(sparse.source(), "m");
  ASSERT_TRUE(state.has_error());
  EXPECT_THAT(state.error().message, HasSubstr("damaged at offset 8192"));
}

TEST_F(HostileManifestTest, ARecordThatIsLargerThanAnyIsRefused) {
  Sparse sparse{hostile_manifest({hostile_drive(0, "")})};
  Bytes records(kBlockBytes);
  const std::uint32_t claimed = 0xffffffff;
  std::memcpy(records.data(), &claimed, sizeof(claimed));
  Bytes batch = lying_header(2, records.size());
  const std::uint64_t seal = checksum(IntegrityLevel::kFull, records);
  std::memcpy(batch.data() + 32, &seal, sizeof(seal));
  const std::uint64_t header_seal = checksum(IntegrityLevel::kFull, std::span(batch).first(40));
  std::memcpy(batch.data() + 40, &header_seal, sizeof(header_seal));
  batch.resize(BatchHeader::kBytes);
  batch.insert(batch.end(), records.begin(), records.end());
  batch.resize(2 * kBlockBytes);
  sparse.front.insert(sparse.front.end(), batch.begin(), batch.end());
  sparse.size = sparse.front.size();
  const Result<ManifestState> state = parse_manifest(sparse.source(), "m");
  ASSERT_TRUE(state.has_error());
  EXPECT_THAT(state.error().message, HasSubstr("does not understand"));
}

}  // namespace
}  // namespace penstock
