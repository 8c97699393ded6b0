#include "swap/engine/deferred_work.h"

#include <gtest/gtest.h>

#include "swap/engine/locked.h"
#include "tests/engine/parts_fixture.h"

namespace penstock {
namespace {

using DeferredWorkTest = PartsFixture;

TEST_F(DeferredWorkTest, HappensWhenTheLockIsFreeInItsOrder) {
  const auto ticket = std::make_shared<TicketState>();
  std::weak_ptr<Block> memory;
  ticket->then([&](const Ticket& ended) {
    EXPECT_TRUE(ended.done());
    EXPECT_TRUE(ground_.context.mutex.try_lock());
    ground_.context.mutex.unlock();
    EXPECT_TRUE(memory.expired()) << "what a ticket wakes needs memory";
    worker_.did.push_back("notified");
  });
  {
    Locked locked(ground_.context);
    locked.run_ahead();
    locked.copy({});
    locked.expect_fill();
    locked.fill({TensorId{1}, 1, false});
    std::shared_ptr<Block> block = ground_.memory.resident_block(kMiB).value();
    memory = block;
    locked.drop(std::move(block));
    locked.fulfil(ticket, std::nullopt);
    locked.send(std::make_shared<Writing>());
    EXPECT_TRUE(worker_.did.empty());
    EXPECT_FALSE(memory.expired());
  }
  EXPECT_TRUE(memory.expired());
  EXPECT_EQ(worker_.did,
            (std::vector<std::string>{"send", "notified", "fill", "copy", "run ahead"}));
}

TEST_F(DeferredWorkTest, WritesKeepTheirOrder) {
  {
    Locked locked(ground_.context);
    for (const std::uint64_t generation : {1U, 2U, 3U}) {
      auto writing = std::make_shared<Writing>();
      writing->generation = generation;
      locked.send(std::move(writing));
    }
  }
  ASSERT_EQ(worker_.sent.size(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(worker_.sent[i]->generation, i + 1);
    EXPECT_EQ(worker_.sent[i]->next, nullptr);
  }
}

}  // namespace
}  // namespace penstock
