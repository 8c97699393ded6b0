#include "swap/engine/write_barrier.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(WriteBarrierTest, AFlushWaitsForWhatBeganBeforeIt) {
  WriteBarrier writes;
  WriteBarrier::Half before;
  WriteBarrier::Half after;
  writes.begin(before);
  writes.begin_flush();
  EXPECT_FALSE(writes.has_flushed());
  writes.begin(after);
  writes.end(before);
  EXPECT_TRUE(writes.has_flushed()) << "the later write is still in flight";
  writes.end_flush();
  writes.begin_flush();
  EXPECT_FALSE(writes.has_flushed()) << "it is before this one";
  writes.end(after);
  EXPECT_TRUE(writes.has_flushed());
}

// From a device to memory, then from there to a drive: one write, which begins twice.
TEST(WriteBarrierTest, AWriteThatBeginsAgainIsAsOldAsItWas) {
  WriteBarrier writes;
  WriteBarrier::Half half;
  writes.begin(half);
  writes.begin_flush();
  writes.end(half);
  writes.begin(half);
  EXPECT_FALSE(writes.has_flushed());
  writes.end(half);
  EXPECT_TRUE(writes.has_flushed());
}

}  // namespace
}  // namespace penstock
