#include "io/handler_storage.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

namespace penstock {
namespace {

TEST(HandlerStorage, LendsItsRoomToOneAtATime) {
  HandlerStorage storage;
  void* const first = storage.allocate(100);
  void* const second = storage.allocate(100);
  EXPECT_NE(first, second);
  storage.deallocate(second);
  storage.deallocate(first);
  EXPECT_EQ(storage.allocate(64), first);
  storage.deallocate(first);
  void* const large = storage.allocate(100'000);
  EXPECT_NE(large, first);
  storage.deallocate(large);
}

TEST(HandlerStorage, IsFreeAgainWhenItsHandlerRuns) {
  HandlerStorage storage;
  boost::asio::io_context context;
  bool was_free = false;
  boost::asio::post(context, boost::asio::bind_allocator(HandlerAllocator<void>(storage), [&] {
                      void* const room = storage.allocate(1);
                      was_free = room >= &storage && room < &storage + 1;
                      storage.deallocate(room);
                    }));
  void* const other = storage.allocate(1);
  EXPECT_TRUE(other < &storage || other >= &storage + 1) << "the posted handler has the room";
  storage.deallocate(other);
  context.run();
  EXPECT_TRUE(was_free);
}

}  // namespace
}  // namespace penstock
