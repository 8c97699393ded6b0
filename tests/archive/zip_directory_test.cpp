#include "bindings/archive/zip_directory.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "bindings/archive/crc32.h"
#include "bindings/archive/record_check.h"
#include "io/io_queue.h"
#include "tests/io/temp_directory.h"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::uint32_t crc_of(const std::string& text) {
  return crc32(0, std::as_bytes(std::span(text)));
}

template <class Number>
std::string number(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

struct Said {
  std::string name;
  std::string content;
  bool has_descriptor = true;
  bool is_64 = false;
  std::uint16_t method = 0;
};

/// A ZIP archive as torch.save writes it, or nearly so.
enum class End : std::uint8_t { kShort, k64, kBoth };

std::string archive(const std::vector<Said>& records, End end = End::kShort) {
  std::string file;
  std::string directory;
  for (const Said& said : records) {
    const std::string name = "model/" + said.name;
    const auto bytes = static_cast<std::uint32_t>(said.content.size());
    const auto flags = static_cast<std::uint16_t>(said.has_descriptor ? 8 : 0);
    const std::uint32_t crc = crc_of(said.content);
    const auto offset = static_cast<std::uint32_t>(file.size());
    const auto name_bytes = static_cast<std::uint16_t>(name.size());
    file += "PK\x03\x04" + number<std::uint16_t>(0) + number(flags) + number(said.method) +
            number<std::uint32_t>(0) + number(said.has_descriptor ? 0U : crc) + number(bytes) +
            number(bytes) + number(name_bytes) + number<std::uint16_t>(0) + name + said.content;
    if (said.has_descriptor) {
      file += "PK\x07\x08" + number(crc) + number(bytes) + number(bytes);
    }
    const std::string extra = said.is_64
                                  ? number<std::uint16_t>(1) + number<std::uint16_t>(24) +
                                        number<std::uint64_t>(bytes) +
                                        number<std::uint64_t>(bytes) + number<std::uint64_t>(offset)
                                  : "";
    const std::uint32_t shown = said.is_64 ? 0xffffffff : bytes;
    directory += "PK\x01\x02" + number<std::uint32_t>(0) + number(flags) + number(said.method) +
                 number<std::uint32_t>(0) + number(crc) + number(shown) + number(shown) +
                 number(name_bytes) + number(static_cast<std::uint16_t>(extra.size())) +
                 number<std::uint16_t>(0) + number<std::uint64_t>(0) +
                 number(said.is_64 ? 0xffffffff : offset) + name + extra;
  }
  const auto count = static_cast<std::uint16_t>(records.size());
  const auto offset = static_cast<std::uint32_t>(file.size());
  const auto bytes = static_cast<std::uint32_t>(directory.size());
  file += directory;
  if (end != End::kShort) {
    const std::uint64_t end_offset = file.size();
    file += "PK\x06\x06" + number<std::uint64_t>(44) + number<std::uint32_t>(0) +
            number<std::uint64_t>(0) + number<std::uint64_t>(count) + number<std::uint64_t>(count) +
            number<std::uint64_t>(bytes) + number<std::uint64_t>(offset);
    file += "PK\x06\x07" + number<std::uint32_t>(0) + number(end_offset) + number<std::uint32_t>(1);
  }
  file += "PK\x05\x06" + number<std::uint32_t>(0) +
          number(end == End::k64 ? std::uint16_t{0xffff} : count) +
          number(end == End::k64 ? std::uint16_t{0xffff} : count) + number(bytes) + number(offset) +
          number<std::uint16_t>(0);
  return file;
}

class ZipDirectoryTest : public ::testing::Test {
 protected:
  File written(const std::string& bytes) {
    File file = File::open(path_, File::Access::kCreate, DirectMode::kBuffered).value();
    file.truncate(0).value();
    file.write_at(0, std::as_bytes(std::span(bytes))).value();
    return file;
  }
  std::string refusal(const std::string& bytes) {
    const Result<ZipDirectory> read = read_zip_directory(written(bytes));
    return read.has_error() ? read.error().message : "taken";
  }
  std::vector<DamagedRecord> damaged() {
    const auto queue = IoQueue::start(EngineKind::kAuto, {}).value();
    const File file = File::open(path_, File::Access::kRead, DirectMode::kBuffered).value();
    return check_zip_records(os_file_system(), *queue, path_,
                             read_zip_directory(file).value().records, {})
        .value();
  }

  TempDirectory directory_;
  std::string path_ = directory_ / "model.pt";
};

TEST_F(ZipDirectoryTest, ReadsWhatTorchWrites) {
  const File file = written(archive({{"data.pkl", "pickle"},
                                     {"data/0", "numbers", true, true},
                                     {"data/1", "", false},
                                     {"version", "3\n", false}},
                                    End::k64));
  const ZipDirectory read = read_zip_directory(file).value();
  ASSERT_EQ(read.records.size(), 4U);
  const ZipRecord* numbers = read.find("data/0");
  ASSERT_NE(numbers, nullptr);
  EXPECT_EQ(numbers->bytes, 7U);
  EXPECT_EQ(numbers->crc, crc_of("numbers"));
  std::string content(7, '\0');
  file.read_at(numbers->offset, std::as_writable_bytes(std::span(content))).value();
  EXPECT_EQ(content, "numbers");
  EXPECT_EQ(read.find("data/2"), nullptr);
  EXPECT_THAT(damaged(), IsEmpty());
}

TEST_F(ZipDirectoryTest, FindsDamagedRecords) {
  std::string bytes = archive({{"data/0", "first"}, {"data/1", "second"}, {"data/2", "third"}});
  bytes[bytes.find("second")] = 'z';
  (void)written(bytes);
  const std::vector<DamagedRecord> found = damaged();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].record.name, "data/1");
  EXPECT_THAT(found[0].reason, HasSubstr(fmt::format("CRC-32 is {:08x} instead of {:08x}",
                                                     crc_of("zecond"), crc_of("second"))));
}

TEST_F(ZipDirectoryTest, AnArchiveWithoutAnyCrcIsNotDamaged) {
  std::string bytes = archive({{"data/0", "first", false}, {"data/1", "second", false}});
  for (const std::string content : {"first", "second"}) {
    const std::string crc = number(crc_of(content));
    for (std::size_t at = bytes.find(crc); at != std::string::npos; at = bytes.find(crc)) {
      bytes.replace(at, crc.size(), crc.size(), '\0');
    }
  }
  (void)written(bytes);
  EXPECT_THAT(damaged(), IsEmpty());
}

TEST_F(ZipDirectoryTest, WritesTheCrcWhereverItIsKept) {
  for (const bool has_descriptor : {false, true}) {
    std::string bytes = archive({{"data/0", "first", has_descriptor}});
    bytes[bytes.find("first")] = 'w';
    const File file = written(bytes);
    write_zip_crc(file, read_zip_directory(file).value().records[0], crc_of("wirst")).value();
    std::string now(bytes.size(), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(now))).value();
    EXPECT_EQ(now, archive({{"data/0", "wirst", has_descriptor}}));
  }
}

TEST_F(ZipDirectoryTest, RefusesWhatIsNoArchiveOfRecords) {
  const std::string good = archive({{"data/0", "first"}, {"data/1", "second"}});
  EXPECT_THAT(refusal(""), HasSubstr("no ZIP archive"));
  EXPECT_THAT(refusal("PK\x05\x06"), HasSubstr("no ZIP archive"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("no ZIP archive"));
  EXPECT_THAT(refusal(good.substr(10)), HasSubstr("damaged"));
  EXPECT_THAT(refusal(archive({{"data/0", "first", true, false, 8}})), HasSubstr("compressed"));
  EXPECT_THAT(refusal(archive({{"data/0", "first"}, {"data/0", "second"}})),
              HasSubstr("two records data/0"));
}

/// torch refuses these, or takes a record for a folder and gives memory that nothing has filled.
TEST_F(ZipDirectoryTest, RefusesWhatTorchDoesNotRead) {
  const auto with_bit = [](std::string bytes, std::size_t at, int bit) {
    bytes[at] = static_cast<char>(bytes[at] ^ bit);
    return bytes;
  };
  for (const End kind : {End::kShort, End::k64, End::kBoth}) {
    const std::string good = archive({{"data/0", "first"}}, kind);
    ASSERT_EQ(refusal(good), "taken");
    const std::size_t entry = good.find("PK\x01\x02");
    EXPECT_THAT(refusal(with_bit(good, entry + 38, 0x10)), HasSubstr("is a folder"));
    EXPECT_THAT(refusal(with_bit(good, entry + 34, 1)), HasSubstr("another disk"));
    EXPECT_THAT(refusal(with_bit(good, entry + 9, 0x20)), HasSubstr("encrypted"));
  }
  const std::string short_end = archive({{"data/0", "first"}});
  const std::size_t end = short_end.rfind("PK\x05\x06");
  for (const std::size_t at : {4U, 6U, 8U}) {
    EXPECT_THAT(refusal(with_bit(short_end, end + at, 1)), HasSubstr("is damaged")) << at;
  }
  const std::string long_end = archive({{"data/0", "first"}}, End::k64);
  const std::size_t end64 = long_end.rfind("PK\x06\x06");
  for (const std::size_t at : {16U, 20U, 24U}) {
    EXPECT_THAT(refusal(with_bit(long_end, end64 + at, 1)), HasSubstr("is damaged")) << at;
  }
  const std::size_t locator = long_end.rfind("PK\x06\x07");
  for (const std::size_t at : {4U, 16U}) {
    EXPECT_THAT(refusal(with_bit(long_end, locator + at, 1)), HasSubstr("is damaged")) << at;
  }
}

/// torch.save writes both ends, and torch.load reads the longer one.
TEST_F(ZipDirectoryTest, BothEndsSayTheSame) {
  const std::string good = archive({{"data/0", "first"}, {"data/1", "second"}}, End::kBoth);
  ASSERT_EQ(refusal(good), "taken");
  const auto refuses = [&](std::size_t at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    EXPECT_THAT(refusal(bytes), HasSubstr("is damaged")) << at;
  };
  const std::size_t end64 = good.rfind("PK\x06\x06");
  for (std::size_t at = 0; at < 56; ++at) {
    if (at < 12 || at > 15) {  // what it was made by, and for
      refuses(end64 + at);
    }
  }
  const std::size_t locator = good.rfind("PK\x06\x07");
  for (std::size_t at = 4; at < 20; ++at) {
    refuses(locator + at);
  }
  const std::size_t end = good.rfind("PK\x05\x06");
  for (std::size_t at = 4; at < 20; ++at) {
    refuses(end + at);
  }
}

TEST_F(ZipDirectoryTest, RefusesDamagedNames) {
  const std::string good = archive({{"data/0", "first"}, {"data/1", "second"}});
  const std::size_t first = good.find("model/data/0", good.find("PK\x01\x02"));
  const std::size_t second = good.find("model/data/1", first);
  std::string exchanged = good;
  std::swap(exchanged[first + 11], exchanged[second + 11]);
  EXPECT_THAT(refusal(exchanged), HasSubstr("record data/1 has another name"));
  std::string longer = good;  // in front of the bytes
  longer[26] += 1;
  EXPECT_THAT(refusal(longer), HasSubstr("record data/0 has another name"));
  std::string moved = good;
  moved[second] = 'n';
  EXPECT_THAT(refusal(moved), HasSubstr("two folders, 'model/' and 'nodel/'"));
  const std::string alone = archive({{"data/0", "first"}});
  std::string renamed = alone;
  renamed[alone.rfind("model/")] = 'n';
  EXPECT_THAT(refusal(renamed), HasSubstr("another name"));
}

TEST_F(ZipDirectoryTest, NoCutAndNoFlippedBitOfAnArchiveMakesItCrash) {
  const std::string good =
      archive({{"data/0", "first", true, true}, {"data/1", "second", false}}, End::k64);
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_NE(refusal(good.substr(0, bytes)), "taken") << bytes;
  }
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bytes = good;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    (void)refusal(bytes);
  }
}

}  // namespace
}  // namespace penstock
