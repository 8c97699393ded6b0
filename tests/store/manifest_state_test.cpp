#include "swap/store/manifest_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "alloc/bytes.h"
#include "swap/store/manifest_batch.h"
#include "tests/store/manifest_in_memory.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kStore = 0x1122334455667788;

StoreEntry entry(const std::string& name, std::uint64_t offset, std::uint64_t generation,
                 std::vector<std::uint64_t> shape = {64, 32}) {
  StoreEntry entry;
  entry.info = {name, DType::kBF16, std::move(shape), Role::kMaster};
  entry.stored.identity.store = 7;
  entry.stored.identity.tensor = 3;
  entry.stored.identity.generation = generation;
  entry.stored.identity.bytes = entry.info.bytes();
  entry.stored.identity.level = 2;
  entry.stored.identity.checksum = 0xfeed;
  entry.stored.extent = {offset, entry.stored.layout_bytes()};
  return entry;
}

const DriveRecord kDrive{0, "", data_file_name(kStore), 1.5, 10 * kMiB};

class Journal {
 public:
  explicit Journal(std::vector<ManifestRecord> records = {kDrive}) : bytes_(encode_head(head())) {
    add(std::move(records));
  }
  void add(std::vector<ManifestRecord> records) {
    const Bytes batch = encode_batch(kStore, sequence_++, records);
    bytes_.insert(bytes_.end(), batch.begin(), batch.end());
  }
  static ManifestHead head() { return {ManifestHead::kVersion, kStore, 5}; }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  std::uint64_t sequence_ = head().first_sequence;
};

std::string problem(const Bytes& bytes) {
  const Result<ManifestState> state = parse_manifest(bytes, "m");
  return state.has_error() ? state.error().message : "no error";
}

/// Two tensors in one batch, one of them renewed in a second, a third batch on top.
Journal three_batches() {
  Journal journal;
  journal.add({entry("a", 0, 1), entry("b", 64 * kKiB, 1)});
  journal.add({entry("a", 128 * kKiB, 2), NoteRecord{"format", "pt"}});
  journal.add({RemovalRecord{"b"}, SessionRecord{SessionRecord::Event::kClosed}});
  return journal;
}

TEST(ManifestState, EveryRecordComesBack) {
  Journal journal;
  journal.add({entry("scalar", 0, 1, {}), entry("empty", 64 * kKiB, 9, {0, 4})});
  journal.add({DriveRecord{1, "/nvme1", data_file_name(kStore), 3.0, std::nullopt}});
  journal.add({NoteRecord{"format", "pt"}, SessionRecord{}});
  const ManifestState state = parse_manifest(journal.bytes(), "m").value();
  EXPECT_EQ(state.store, kStore);
  EXPECT_EQ(state.sequence, 8U);
  EXPECT_EQ(state.valid_bytes, journal.bytes().size());
  EXPECT_EQ(state.torn_bytes, 0U);
  EXPECT_FALSE(state.closed);
  ASSERT_EQ(state.drives.size(), 2U);
  EXPECT_EQ(state.drives[0], kDrive);
  EXPECT_EQ(state.drives[1].directory, "/nvme1");
  EXPECT_EQ(state.notes.at("format"), "pt");
  const StoreEntry& scalar = state.tensors.at("scalar");
  const StoreEntry expected = entry("scalar", 0, 1, {});
  EXPECT_EQ(scalar.info.dtype, DType::kBF16);
  EXPECT_EQ(scalar.info.role, Role::kMaster);
  EXPECT_TRUE(scalar.info.shape.empty());
  EXPECT_EQ(scalar.stored.extent, expected.stored.extent);
  EXPECT_EQ(scalar.stored.identity, expected.stored.identity);
  EXPECT_EQ(state.tensors.at("empty").info.shape, (std::vector<std::uint64_t>{0, 4}));
}

TEST(ManifestState, TheLastWordCounts) {
  const ManifestState state = parse_manifest(three_batches().bytes(), "m").value();
  ASSERT_EQ(state.tensors.size(), 1U);
  EXPECT_EQ(state.tensors.at("a").stored.identity.generation, 2U);
  EXPECT_TRUE(state.closed);
}

TEST(ManifestState, BeginsAnewWithWhatItSays) {
  const ManifestState state = parse_manifest(three_batches().bytes(), "m").value();
  const ManifestState again = parse_manifest(Journal(state.records()).bytes(), "m").value();
  EXPECT_EQ(again.tensors.size(), 1U);
  EXPECT_EQ(again.notes, state.notes);
  EXPECT_EQ(again.drives, state.drives);
}

TEST(ManifestState, ATailCutOffAtAnyByteDoesNotCount) {
  Journal journal = three_batches();
  const std::size_t safe = journal.bytes().size();
  journal.add({entry("a", 256 * kKiB, 3)});
  for (std::size_t cut = safe; cut < journal.bytes().size(); ++cut) {
    const Bytes bytes(journal.bytes().begin(),
                      journal.bytes().begin() + static_cast<std::ptrdiff_t>(cut));
    const Result<ManifestState> state = parse_manifest(bytes, "m");
    ASSERT_TRUE(state.has_value()) << cut << ": " << state.error().message;
    ASSERT_EQ(state->tensors.at("a").stored.identity.generation, 2U) << cut;
    ASSERT_EQ(state->valid_bytes, safe);
    ASSERT_EQ(state->torn_bytes, cut - safe);
  }
}

TEST(ManifestState, SectorsOfATailThatAreMissingDoNotCount) {
  Journal journal = three_batches();
  const std::size_t safe = journal.bytes().size();
  std::vector<ManifestRecord> many;
  for (std::uint64_t i = 0; i < 100; ++i) {
    many.emplace_back(entry("tensor number " + std::to_string(i), i * 64 * kKiB, 4));
  }
  journal.add({many});
  constexpr std::size_t kSector = 512;
  const std::size_t sectors = (journal.bytes().size() - safe) / kSector;
  ASSERT_GT(sectors, 16U);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Bytes bytes = journal.bytes();
    bool changed = false;
    for (std::size_t i = 0; i < sectors; ++i) {
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(safe + i * kSector);
      const auto end = begin + static_cast<std::ptrdiff_t>(kSector);
      const bool lost = random() % 4 == 0;
      changed = changed ||
                (lost && std::any_of(begin, end, [](std::byte b) { return b != std::byte{}; }));
      if (lost) {
        std::fill(begin, end, std::byte{0});
      }
    }
    const ManifestState state = parse_manifest(bytes, "m").value();
    ASSERT_EQ(state.tensors.contains("tensor number 0"), !changed);
    ASSERT_EQ(state.tensors.contains("a"), true);
  }
}

TEST(ManifestState, DamageInFrontOfSomethingWholeIsAnErrorWithItsPlace) {
  const Journal journal = three_batches();
  const std::size_t begin = 2 * kBlockBytes;    // behind the head and the drives
  for (std::size_t i = 0; i < 48 + 100; ++i) {  // header and some of the records
    Bytes bytes = journal.bytes();
    bytes[begin + i] ^= std::byte{0x10};
    ASSERT_THAT(problem(bytes), HasSubstr("damaged at offset 8192")) << i;
  }
  Bytes bytes = journal.bytes();
  std::fill_n(bytes.begin() + begin, kBlockBytes, std::byte{0});
  EXPECT_THAT(problem(bytes), HasSubstr("damaged at offset 8192"));
}

TEST(ManifestState, ABatchThatIsMissingInTheMiddleIsDamage) {
  const Journal journal = three_batches();
  Bytes bytes = journal.bytes();
  bytes.erase(bytes.begin() + 2 * kBlockBytes, bytes.begin() + 3 * kBlockBytes);
  EXPECT_THAT(problem(bytes), HasSubstr("damaged at offset 8192"));
}

TEST(ManifestState, AHeadTellsWhoWroteIt) {
  const Journal journal = three_batches();
  EXPECT_EQ(problem({}), "m is no manifest of penstock");
  EXPECT_THAT(problem(Bytes(journal.bytes().begin(), journal.bytes().begin() + 100)),
              HasSubstr("damaged at offset 0"));
  EXPECT_THAT(problem(Bytes(journal.bytes().begin(), journal.bytes().begin() + kBlockBytes)),
              HasSubstr("damaged at offset 4096"));
  for (std::size_t i = 0; i < 40; ++i) {
    Bytes bytes = journal.bytes();
    bytes[i] ^= std::byte{1};
    ASSERT_THAT(problem(bytes),
                HasSubstr(i < 8 ? "is no manifest of penstock" : "damaged at offset 0"))
        << i;
  }
  ManifestHead newer = Journal::head();
  ++newer.version;
  Bytes bytes = encode_head(newer);
  bytes.insert(bytes.end(), journal.bytes().begin() + kBlockBytes, journal.bytes().end());
  const Result<ManifestState> state = parse_manifest(bytes, "m");
  ASSERT_TRUE(state.has_error());
  EXPECT_EQ(state.error().code, make_error_code(Fault::kUnsupported));
  EXPECT_THAT(state.error().message, HasSubstr("newer penstock (format 2; this one knows 1)"));
}

TEST(ManifestState, RecordsThatCannotBeAreDamage) {
  const auto with = [](ManifestRecord record) {
    Journal journal;
    journal.add({std::move(record)});
    return problem(journal.bytes());
  };
  EXPECT_EQ(with(entry("good", 0, 1)), "no error");
  StoreEntry bad = entry("elsewhere", 0, 1);
  bad.stored.drive = 1;
  EXPECT_THAT(with(bad), HasSubstr("tensor elsewhere on drive 1 of 1"));
  bad = entry("crooked", 512, 1);
  EXPECT_THAT(with(bad), HasSubstr("a record that this penstock does not understand"));
  bad = entry("short", 0, 1);
  bad.stored.extent.bytes -= kBlockBytes;
  EXPECT_THAT(with(bad), HasSubstr("does not understand"));
  bad = entry("endless", 0, 1, {1ULL << 62, 4});
  EXPECT_THAT(with(bad), HasSubstr("does not understand"));
  bad = entry("level", 0, 1);
  bad.stored.identity.level = 3;
  EXPECT_THAT(with(bad), HasSubstr("does not understand"));
  EXPECT_THAT(with(DriveRecord{2, "", "x", 1.0, {}}), HasSubstr("drive 2 without a drive 1"));
  EXPECT_THAT(with(DriveRecord{0, "", "../x", 1.0, {}}), HasSubstr("does not understand"));
  EXPECT_THAT(with(DriveRecord{0, "", "", 1.0, {}}), HasSubstr("does not understand"));
  EXPECT_THAT(with(DriveRecord{0, "", "x", -1.0, {}}), HasSubstr("does not understand"));
}

TEST(ManifestState, TwoTensorsInOnePlaceAreDamage) {
  Journal journal;
  journal.add({entry("a", 0, 1), entry("b", 4096, 1)});
  EXPECT_THAT(problem(journal.bytes()), HasSubstr("tensors a and b lie over each other"));
  journal.add({entry("a", 64 * kKiB, 2)});
  EXPECT_EQ(problem(journal.bytes()), "no error") << "only what counts in the end must be apart";
}

TEST(ManifestState, AnyBytesEndInASentenceOrAState) {
  const Journal journal = three_batches();
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    Bytes bytes = journal.bytes();
    for (std::size_t k = 1 + random() % 6; k > 0; --k) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<std::byte>(random());
          break;
        case 1:
          bytes.resize(at + 1);
          break;
        default:
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), random() % 5000,
                       std::byte{0});
      }
    }
    const Result<ManifestState> state = parse_manifest(bytes, "m");
    ASSERT_TRUE(state.has_value() || !state.error().message.empty());
  }
}

}  // namespace
}  // namespace penstock
