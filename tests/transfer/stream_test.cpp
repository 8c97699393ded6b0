#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "alloc/bytes.h"
#include "swap/transfer/stream_reader.h"
#include "swap/transfer/stream_writer.h"
#include "tests/store/durable_fixture.h"

namespace penstock {
namespace {

constexpr ChunkShape kSmall{8 * kKiB, 3};

class StreamTest : public DurableFixture {
 protected:
  std::string write_file(const std::vector<std::byte>& data) {
    const std::string path = directory_ / "file";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(data.data()),
               static_cast<std::streamsize>(data.size()));
    return path;
  }
};

TEST_F(StreamTest, ReadsStretchesFromAnywhereInOrder) {
  const std::vector<std::byte> data = content(100'001, 1);
  const std::string path = write_file(data);
  const File direct = File::open(path, File::Access::kRead).value();
  const File buffered = File::open(path, File::Access::kRead, DirectMode::kBuffered).value();
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges{
      {0, 100'001}, {5, 1},          {4095, 2},    {4096, 8192}, {50, 0},
      {99'999, 2},  {98'304, 1'697}, {77, 30'000}, {100'001, 0}, {8191, 16'385}};
  std::vector<Stretch> stretches;
  for (const auto& [offset, bytes] : ranges) {
    stretches.push_back({&direct, &buffered, offset, bytes, data.size()});
  }
  const auto reader = StreamReader::make(*queue_, stretches, kSmall).value();
  std::size_t stretch = 0;
  std::vector<std::byte> got;
  while (const auto part = reader->next()) {
    ASSERT_FALSE(part->problem) << part->problem->message;
    ASSERT_EQ(part->stretch, stretch);
    ASSERT_EQ(part->offset, got.size());
    got.insert(got.end(), part->bytes.begin(), part->bytes.end());
    if (part->last) {
      const auto [offset, bytes] = ranges[stretch];
      const auto begin = data.begin() + static_cast<std::ptrdiff_t>(offset);
      EXPECT_EQ(got, std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(bytes)))
          << "stretch " << stretch;
      got.clear();
      ++stretch;
    }
  }
  EXPECT_EQ(stretch, ranges.size());
}

TEST_F(StreamTest, WhatCannotBeReadIsAnErrorAndTheRestComes) {
  const std::string path = write_file(content(16 * kKiB, 1));
  const File file = File::open(path, File::Access::kRead).value();
  std::vector<Stretch> stretches;
  stretches.push_back({&file, nullptr, 0, 32 * kKiB, 0});  // half of it is not there
  stretches.push_back({&file, nullptr, 4096, 4096, 0});
  const auto reader = StreamReader::make(*queue_, stretches, kSmall).value();
  int problems = 0;
  std::uint64_t good_bytes = 0;
  while (const auto part = reader->next()) {
    if (part->problem) {
      ++problems;
      EXPECT_EQ(part->stretch, 0U);
      EXPECT_EQ(part->problem->system_errno(), ENODATA);
      EXPECT_EQ(part->problem->path, path);
    }
    good_bytes += part->bytes.size();
  }
  EXPECT_EQ(problems, 2);
  EXPECT_EQ(good_bytes, 16 * kKiB + 4096);
}

TEST_F(StreamTest, WhatFollowsIsWrittenTogetherAndPaddedAtTheEnd) {
  const std::vector<std::byte> data = content(50'000, 2);
  const File file = File::open(directory_ / "out", File::Access::kCreate).value();
  ASSERT_TRUE(file.reserve(0, 200'000));
  const auto writer = StreamWriter::make(*queue_, kSmall).value();
  const auto before = queue_->stats().write_ops;
  for (std::size_t at = 0; at < data.size(); at += 1000) {
    ASSERT_TRUE(writer->write(file, 8192 + at, std::span(data).subspan(at, 1000)));
  }
  ASSERT_TRUE(writer->write(file, 102'400, std::span(data).first(10)));
  ASSERT_TRUE(writer->drain());
  EXPECT_EQ(queue_->stats().write_ops - before, 50'000 / (8 * kKiB) + 2);
  std::vector<std::byte> found(50'000);
  const File again =
      File::open(directory_ / "out", File::Access::kRead, DirectMode::kBuffered).value();
  ASSERT_TRUE(again.read_at(8192, found));
  EXPECT_EQ(found, data);
  found.resize(10);
  ASSERT_TRUE(again.read_at(102'400, found));
  EXPECT_TRUE(std::equal(found.begin(), found.end(), data.begin()));
}

TEST_F(StreamTest, AFailedWriteIsReportedByTheNextCall) {
  std::ofstream(directory_ / "read-only") << "x";
  const File file = File::open(directory_ / "read-only", File::Access::kRead).value();
  const auto writer = StreamWriter::make(*queue_, kSmall).value();
  const std::vector<std::byte> data = content(100'000, 2);
  Result<void> written = writer->write(file, 0, data);
  if (written.has_value()) {
    written = writer->drain();
  }
  ASSERT_TRUE(written.has_error());
  EXPECT_EQ(written.error().system_errno(), EBADF);
  EXPECT_TRUE(writer->drain().has_error());
  EXPECT_TRUE(writer->room(file, 0).has_error());
}

}  // namespace
}  // namespace penstock
