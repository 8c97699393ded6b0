// Contents that are read and written in parts.

#include <gmock/gmock.h>

#include <array>
#include <cerrno>

#include "swap/device/host_device.h"
#include "tests/swap/engine_fixture.h"
#include "tests/swap/sim_engine_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

const std::vector<std::uint64_t> kSizes{1, 4095, 4096, 4097, kMiB, 5 * kMiB + 3, 20 * kMiB};

class SwapEngineStreamTest : public EngineFixture {
 protected:
  std::vector<TensorId> declare_all() {
    std::vector<TensorId> tensors;
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      tensors.push_back(declare(numbered(i), kSizes[i]));
    }
    return tensors;
  }
  std::vector<std::vector<std::byte>> read(const std::vector<TensorId>& tensors) {
    ContentReader reader = engine_->read(tensors).value();
    std::vector<std::vector<std::byte>> contents(tensors.size());
    std::size_t ended = 0;
    while (const std::optional<ContentReader::Part> part = reader.next().value()) {
      EXPECT_EQ(part->tensor, ended) << "in the order asked for";
      EXPECT_LE(part->bytes.size(), kMiB);
      contents[part->tensor].insert(contents[part->tensor].end(), part->bytes.begin(),
                                    part->bytes.end());
      ended += part->last ? 1U : 0U;
    }
    EXPECT_EQ(ended, tensors.size());
    return contents;
  }
  static void append(ContentWriter& writer, const std::vector<std::byte>& data, std::size_t piece) {
    for (std::size_t at = 0; at < data.size(); at += piece) {
      writer.append(std::span(data).subspan(at, std::min(piece, data.size() - at))).value();
    }
  }
  void write(ContentWriter& writer, const std::vector<TensorId>& tensors, unsigned seed) {
    const std::vector<std::size_t> pieces{7, 1000, 4096, kMiB, 3 * kMiB};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      writer.begin(tensors[i]).value();
      append(writer, content(kSizes[i], seed), pieces[(i + seed) % pieces.size()]);
      writer.end().value();
    }
  }
  void expect_contents(const std::vector<TensorId>& tensors, unsigned seed) {
    SCOPED_TRACE(fmt::format("contents {}", seed));
    const std::vector<std::vector<std::byte>> contents = read(tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(contents[i], content(kSizes[i], seed)) << kSizes[i] << " bytes, streamed";
      SCOPED_TRACE(fmt::format("{} bytes", kSizes[i]));
      expect_content(tensors[i], content(kSizes[i], seed));
    }
  }
};

TEST_F(SwapEngineStreamTest, WhatIsWrittenInPartsIsTheContentOnceItIsPublished) {
  for (const std::uint64_t ram_bytes : {std::uint64_t{0}, 24 * kMiB, 200 * kMiB}) {
    for (const IntegrityLevel level :
         {IntegrityLevel::kOff, IntegrityLevel::kSampled, IntegrityLevel::kFull}) {
      EngineConfig config;
      config.integrity = level;
      SCOPED_TRACE(fmt::format("ram_bytes {}", ram_bytes));
      open(64 * kMiB, ram_bytes, config);
      const std::vector<TensorId> tensors = declare_all();
      for (unsigned seed = 1; seed < 4; ++seed) {
        ContentWriter writer = engine_->write().value();
        write(writer, tensors, seed);
        if (seed > 1) {
          expect_contents(tensors, seed - 1);
        }
        writer.publish().value();
        expect_contents(tensors, seed);
      }
    }
  }
}

TEST_F(SwapEngineStreamTest, ReadsWhatIsLeasedUpdatedOrJustPut) {
  open(64 * kMiB, 0);
  const TensorId leased = declare("leased", 5 * kMiB);
  const TensorId updated = declare("updated", 5 * kMiB);
  const TensorId committed = declare("committed", 5 * kMiB);
  const TensorId put_last = declare("put", 5 * kMiB);
  for (const TensorId tensor : {leased, updated, committed, put_last}) {
    put(tensor, content(5 * kMiB, 1));
  }
  const Lease held = engine_->get(leased).lease().value();
  const Lease changed = engine_->get(updated, Access::kUpdate).lease().value();
  std::memset(changed.data(), 0, changed.bytes());
  const Ticket behind = commit(committed, content(5 * kMiB, 2));
  const std::vector<std::byte> newest = content(5 * kMiB, 3);
  const Ticket putting = engine_->put(put_last, newest);
  const auto contents = read({leased, updated, committed, put_last});
  EXPECT_EQ(contents[0], content(5 * kMiB, 1));
  EXPECT_EQ(contents[1], content(5 * kMiB, 1)) << "what is being changed is not committed";
  EXPECT_EQ(contents[2], content(5 * kMiB, 2));
  EXPECT_EQ(contents[3], newest);
  behind.wait().value();
  putting.wait().value();
}

TEST_F(SwapEngineStreamTest, AReaderKeepsTheContentsOfItsBegin) {
  open(64 * kMiB, 0);
  const TensorId tensor = declare("t", 40 * kMiB);
  put(tensor, content(40 * kMiB, 1));
  ContentReader reader = engine_->read({tensor}).value();
  put(tensor, content(40 * kMiB, 2));
  engine_->forget(tensor).value();
  std::vector<std::byte> read;
  while (const std::optional<ContentReader::Part> part = reader.next().value()) {
    read.insert(read.end(), part->bytes.begin(), part->bytes.end());
  }
  EXPECT_EQ(read, content(40 * kMiB, 1));
}

TEST_F(SwapEngineStreamTest, WhatIsNotPublishedLeavesContentAndSpaceAsTheyWere) {
  open(64 * kMiB, 0);
  const std::vector<TensorId> tensors = declare_all();
  {
    ContentWriter writer = engine_->write().value();
    write(writer, tensors, 1);
    writer.publish().value();
  }
  const std::uint64_t drive_bytes = engine_->stats().drive_bytes;
  {
    ContentWriter writer = engine_->write().value();
    write(writer, tensors, 2);
    writer.begin(tensors.back()).value();
    append(writer, content(3 * kMiB, 2), kMiB);  // and given up in the middle
  }
  EXPECT_EQ(engine_->stats().drive_bytes, drive_bytes);
  expect_contents(tensors, 1);
}

TEST_F(SwapEngineStreamTest, ANewerContentStays) {
  for (const std::uint64_t ram_bytes : {std::uint64_t{0}, 64 * kMiB}) {
    SCOPED_TRACE(fmt::format("ram_bytes {}", ram_bytes));
    open(64 * kMiB, ram_bytes);
    const TensorId tensor = declare("t", 5 * kMiB);
    put(tensor, content(5 * kMiB, 3));
    ContentWriter writer = engine_->write().value();
    writer.begin(tensor).value();
    append(writer, content(5 * kMiB, 1), kMiB);
    writer.end().value();
    put(tensor, content(5 * kMiB, 2));
    writer.publish().value();
    expect_content(tensor, content(5 * kMiB, 2));
  }
}

TEST_F(SwapEngineStreamTest, IsNewerThanWhatADeviceHandedOverBefore) {
  for (unsigned seed = 1; seed < 5; ++seed) {
    const std::shared_ptr<HostDevice> device = HostDevice::make({.seed = seed});
    devices_ = {device};
    open(64 * kMiB, 0);
    const TensorId tensor = declare("t", 16 * kMiB);
    put(tensor, content(16 * kMiB, 3));
    engine_->plan().value();
    const DeviceTensor source{.device = device.get(), .memory = *device->allocate(16 * kMiB)};
    const Ticket before = engine_->put_from_device(tensor, source);
    ContentWriter writer = engine_->write().value();
    writer.begin(tensor).value();  // while it arrives
    before.wait().value();
    engine_->flush().value();
    append(writer, content(16 * kMiB, 1), kMiB);
    writer.end().value();
    writer.publish().value();
    expect_content(tensor, content(16 * kMiB, 1));
    device->release(source.memory);
  }
}

TEST_F(SwapEngineStreamTest, WrongSizesAndUnknownTensorsAreErrors) {
  open(64 * kMiB, 0);
  const TensorId tensor = declare("t", 100);
  ContentWriter writer = engine_->write().value();
  EXPECT_THAT(writer.append(content(1, 1)).error().message, HasSubstr("of which 0 are left"));
  writer.begin(tensor).value();
  EXPECT_THAT(writer.append(content(101, 1)).error().message, HasSubstr("of which 100 are left"));
  writer.append(content(99, 1)).value();
  EXPECT_THAT(writer.end().error().message, HasSubstr("ends 1 bytes early"));
  EXPECT_THAT(writer.begin(tensor).error().message, HasSubstr("has not ended"));
  EXPECT_THAT(writer.publish().error().message, HasSubstr("has not ended"));
  writer.append(content(1, 1)).value();
  writer.end().value();
  EXPECT_THAT(writer.end().error().message, HasSubstr("no content has begun"));
  EXPECT_THAT(writer.append(content(1, 1)).error().message, HasSubstr("of which 0 are left"));
  EXPECT_TRUE(writer.begin(TensorId{1234}).has_error());
  EXPECT_TRUE(engine_->read({TensorId{1234}}).has_error());
  EXPECT_THAT(engine_->read({tensor}).error().message, HasSubstr("has no content yet"));
}

TEST_F(SwapEngineStreamTest, AFullDriveIsSaidBeforeAnythingChanges) {
  open(64 * kMiB, 0);
  space_ = engine_->open_namespace("small", {{directory_.path(), std::nullopt, 12 * kMiB}}).value();
  const TensorId tensor = declare("t", 5 * kMiB);
  const TensorId second = declare("u", 5 * kMiB);
  put(tensor, content(5 * kMiB, 1));
  ContentWriter writer = engine_->write().value();
  writer.begin(tensor).value();
  append(writer, content(5 * kMiB, 2), kMiB);
  writer.end().value();
  const Result<void> refused = writer.begin(second);
  ASSERT_TRUE(refused.has_error());
  EXPECT_TRUE(refused.error().is_full());
  EXPECT_EQ(refused.error().tensor, "u");
  expect_content(tensor, content(5 * kMiB, 1));
}

/// The sanitizers see what is used after it has gone.
TEST_F(SwapEngineStreamTest, MayBeAssignedWhenItsEngineHasGone) {
  std::optional<ContentReader> reader;
  std::optional<ContentWriter> writer;
  for (int i = 0; i < 3; ++i) {
    open(64 * kMiB, 0);  // and the one before closes
    const TensorId tensor = declare("t", 20 * kMiB);
    put(tensor, content(20 * kMiB, 1));
    if (reader) {
      *reader = engine_->read({tensor}).value();
      *writer = engine_->write().value();
    } else {
      reader = engine_->read({tensor}).value();
      writer = engine_->write().value();
    }
    (void)reader->next();
    writer->begin(tensor).value();
    append(*writer, content(9 * kMiB, 2), kMiB);
  }
}

class SwapEngineStreamFaultTest : public SimEngineFixture {
 protected:
  SwapEngineStreamFaultTest() : SimEngineFixture(kGiB) {}
};

TEST_F(SwapEngineStreamFaultTest, AFailedWriteIsTheErrorOfAllThatFollows) {
  open(8 * kMiB, 0);
  const TensorId tensor = declare("t", 40 * kMiB);
  const std::vector<std::byte> data(40 * kMiB, std::byte{1});
  ContentWriter writer = engine_->write().value();
  writer.begin(tensor).value();
  std::array<double, kSimFaults> rates{};
  rates[static_cast<std::size_t>(SimFault::kWriteError)] = 1;
  disk_.set_rates(rates);
  EXPECT_EQ(writer.append(data).error().system_errno(), EIO);
  EXPECT_EQ(writer.append(data).error().system_errno(), EIO) << "some of it had been taken";
  EXPECT_EQ(writer.end().error().system_errno(), EIO);
  EXPECT_EQ(writer.begin(tensor).error().system_errno(), EIO);
  EXPECT_EQ(writer.publish().error().system_errno(), EIO);
}

/// What it has under way still writes to its space, which must not be another's meanwhile.
TEST_F(SwapEngineStreamFaultTest, AWriterGivenUpByAssignmentKeepsItsSpaceUntilItHasEnded) {
  open(64 * kMiB, 0);
  const TensorId tensor = declare("t", 8 * kMiB);
  const std::vector<std::byte> data(8 * kMiB, std::byte{1});
  ContentWriter writer = engine_->write().value();
  writer.begin(tensor).value();
  writer.append(data).value();
  writer.end().value();
  std::vector<Ticket> meanwhile;
  std::vector<std::uint64_t> held_bytes;
  bool is_assigned = false;
  for (int i = 0; i < 16; ++i) {
    meanwhile.push_back(
        engine_->put(declare(fmt::format("t{}", i), kMiB), std::span(data).first(kMiB)));
    meanwhile.back().then([&](const Ticket&) {
      if (!is_assigned) {
        held_bytes.push_back(engine_->stats().drive_bytes);
      }
    });
  }
  const std::uint64_t before = engine_->stats().drive_bytes;
  writer = engine_->write().value();
  is_assigned = true;
  EXPECT_THAT(held_bytes, testing::AllOf(testing::Not(testing::IsEmpty()), testing::Each(before)));
  EXPECT_LE(engine_->stats().drive_bytes, before - data.size());
  for (const Ticket& ticket : meanwhile) {
    ticket.wait().value();
  }
}

}  // namespace
}  // namespace penstock
