#include "swap/plan/chunk_shape.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(ChunkShapeTest, DevicesLeaveWhatHostTransfersNeed) {
  for (const std::uint64_t devices : {1U, 2U, 8U}) {
    const std::uint64_t least = kHostChunks.bytes() + kLeastDeviceBytes * devices;
    for (std::uint64_t given = least; given < least + 16 * kMiB; given += kBlockBytes) {
      const ChunkShape chunks = device_chunks(given, devices);
      ASSERT_GE(chunks.chunk_bytes, 2 * kBlockBytes) << given;
      ASSERT_GE(given - chunks.bytes() * devices, kHostChunks.bytes()) << given;
    }
  }
}

TEST(ChunkShapeTest, DevicesHaveAQuarterAndNotMoreThanKeepsThemBusy) {
  EXPECT_EQ(device_chunks(64 * kMiB, 1).bytes(), 16 * kMiB);
  EXPECT_EQ(device_chunks(64 * kMiB, 2).bytes(), 8 * kMiB);
  EXPECT_EQ(device_chunks(1024 * kMiB, 1).bytes(), 32 * kMiB);
  EXPECT_EQ(device_chunks(kMiB, 1).bytes(), kMiB / 4);  // all tensors may be in RAM
  EXPECT_EQ(device_chunks(64 * kMiB, 0).bytes(), 0U);
}

}  // namespace
}  // namespace penstock
