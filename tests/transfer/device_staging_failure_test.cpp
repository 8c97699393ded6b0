#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/alloc/same_bytes.h"
#include "tests/transfer/device_staging_fixture.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST_F(DeviceStagingTest, AFailurePastHostMemoryIsReported) {
  const auto direct = std::make_shared<HostStorage>();
  staging_ = *DeviceStaging::open(*queue_, device_, *pinned(device_),
                                  {.chunk_bytes = 8 * kKiB, .chunks = 2}, direct);
  const DeviceSpan memory = filled(20 * kMiB + 5, 1);
  StoredTensor stored = reserve(memory.bytes, IntegrityLevel::kOff);
  direct->fails = 2;
  const Result<std::uint64_t> failed = write(stored, memory).get();
  ASSERT_TRUE(failed.has_error());
  EXPECT_EQ(failed.error().system_errno(), EIO);
  EXPECT_EQ(failed.error().tensor, "the.tensor");
  EXPECT_THAT(failed.error().message, HasSubstr("simulated cannot write"));
  direct->fails = 0;
  write_and_wait(stored, memory);
  damage(stored, stored.layout_bytes() - kBlockBytes);
  EXPECT_EQ(read(stored, memory).get().error().code, make_error_code(Fault::kCorrupt))
      << "the identity is looked at all the same";
  staging_.reset();
  EXPECT_EQ(direct->registered, 0);
}

TEST_F(DeviceStagingTest, NoConversionBetweenNumbersOfOtherKinds) {
  const DeviceSpan memory = filled(4000, 1);
  const StoredTensor stored = reserve(4000);
  Outcome outcome;
  staging_->move(to_device(stored, on_device(memory, DType::kF32), DType::kI32), keep_in(outcome));
  const Result<std::uint64_t> done = outcome.get();
  ASSERT_TRUE(done.has_error());
  EXPECT_EQ(done.error().code, make_error_code(Fault::kInvalidArgument));
  EXPECT_THAT(done.error().message, HasSubstr("is i32 and cannot be converted to or from f32"));
}

TEST_F(DeviceStagingTest, DamageIsReported) {
  const std::uint64_t bytes = 300 * kKiB + 1;
  const DeviceSpan memory = filled(bytes, 1);
  StoredTensor first = reserve(bytes);
  StoredTensor second = reserve(bytes);
  write_and_wait(first, memory);
  write_and_wait(second, memory);
  damage(first, 128 * kKiB);
  damage(second, second.layout_bytes() - kBlockBytes);
  for (const StoredTensor& stored : {first, second}) {
    const Result<std::uint64_t> done = read(stored, memory).get();
    ASSERT_TRUE(done.has_error());
    EXPECT_EQ(done.error().code, make_error_code(Fault::kCorrupt)) << done.error().message;
    EXPECT_THAT(done.error().message, HasSubstr("the.tensor"));
    EXPECT_EQ(done.error().tensor, "the.tensor");
    EXPECT_FALSE(done.error().path.empty());
  }
}

TEST_F(DeviceStagingTest, ADriveThatFailsEndsOneTransferAndNoOther) {
  const std::uint64_t bytes = kMiB;
  const DeviceSpan memory = filled(bytes, 1);
  StoredTensor kept = reserve(bytes);
  StoredTensor lost = reserve(bytes);
  write_and_wait(kept, memory);
  write_and_wait(lost, memory);
  ASSERT_GT(lost.extent.offset, kept.extent.offset);
  const int file = open_behind_its_back(lost);
  ASSERT_EQ(::ftruncate(file, static_cast<off_t>(lost.extent.offset + 512 * kKiB)), 0);
  ::close(file);
  std::vector<Outcome> good;
  std::vector<Outcome> bad;
  for (int round = 0; round < 8; ++round) {
    bad.push_back(read(lost, memory));
    good.push_back(read(kept, memory));
  }
  for (int round = 0; round < 8; ++round) {
    const Result<std::uint64_t> failed = bad[static_cast<std::size_t>(round)].get();
    ASSERT_TRUE(failed.has_error());
    EXPECT_EQ(failed.error().system_errno(), ENODATA) << failed.error().message;
    EXPECT_THAT(failed.error().message,
                HasSubstr("cannot read tensor 'the.tensor' (1.0 MiB) from"));
    EXPECT_EQ(failed.error().tensor, "the.tensor");
    EXPECT_TRUE(good[static_cast<std::size_t>(round)].get().has_value());
  }
}

TEST_F(DeviceStagingTest, MemoryOfAnotherSizeOrOfNone) {
  StoredTensor stored = reserve(kMiB);
  const DeviceSpan memory = filled(kMiB, 1);
  const Result<std::uint64_t> small = read(stored, memory.part(0, kMiB - 1)).get();
  EXPECT_EQ(small.error().code, make_error_code(Fault::kWrongSize));
  std::vector<std::byte> host(kMiB);
  const DeviceSpan stray{reinterpret_cast<std::uintptr_t>(host.data()), kMiB};
  const Result<std::uint64_t> refused = write(stored, stray).get();
  ASSERT_TRUE(refused.has_error());
  EXPECT_EQ(refused.error().tensor, "the.tensor");
  write_and_wait(stored, memory);
}

TEST_F(DeviceStagingTest, MoreThanTheDevicePins) {
  const auto device = HostDevice::make({.pin_limit_bytes = 64 * kKiB});
  const auto staging = DeviceStaging::open(*queue_, device, *pinned(device),
                                           {.chunk_bytes = 64 * kKiB, .chunks = 2});
  ASSERT_TRUE(staging.has_error());
  EXPECT_EQ(staging.error().code, make_error_code(Fault::kExhausted)) << staging.error().message;
  EXPECT_EQ(device->pinned_bytes(), 0U);
}

}  // namespace
}  // namespace penstock
