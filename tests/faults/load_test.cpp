#include <gtest/gtest.h>

#include <vector>

#include "tests/faults/fault_fixture.h"

namespace penstock {
namespace {

/// Much more at once than there is room for.
class LoadTest : public FaultOnEveryEngine {
 protected:
  static constexpr unsigned kTensors = 500;
  static constexpr std::uint64_t kBytes = 20 * kKiB + 7;

  void put_all() {
    for (unsigned i = 0; i < kTensors; ++i) {
      tensors_.push_back(declare(numbered(i), kBytes));
      contents_.push_back(content(kBytes, i));
      tickets_.push_back(engine_->put(tensors_.back(), contents_.back()));
    }
  }

  std::vector<TensorId> tensors_;
  std::vector<std::vector<std::byte>> contents_;
  std::vector<Ticket> tickets_;
};

TEST_P(LoadTest, FourThousandRequestsOnAQueueOfEight) {
  fault_is("4,000 requests on a queue of 8",
           "500 puts and 3,500 gets, begun before any is waited for");
  open_on("", 16 * kMiB);
  put_all();
  std::vector<std::vector<std::byte>> targets(7 * kTensors, std::vector<std::byte>(kBytes));
  for (unsigned i = 0; i < targets.size(); ++i) {
    tickets_.push_back(engine_->get_into(tensors_[i % kTensors], targets[i]));
  }
  ASSERT_EQ(tickets_.size(), 4000U);
  for (const Ticket& ticket : tickets_) {
    const Result<void> done = ticket.wait();
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }
  for (unsigned i = 0; i < targets.size(); ++i) {
    ASSERT_EQ(targets[i], contents_[i % kTensors]) << i;
  }
  happened("all succeeds");
  expect_good_copy(tensors_[0], contents_[0]);
}

TEST_P(LoadTest, ClosingWithRequestsInFlight) {
  fault_is("shutdown with requests in flight",
           "close() behind 500 puts and 500 gets, none of them waited for");
  open_on("", 16 * kMiB);
  put_all();
  std::vector<std::vector<std::byte>> targets(kTensors, std::vector<std::byte>(kBytes));
  std::vector<Ticket> reads;
  for (unsigned i = 0; i < kTensors; ++i) {
    reads.push_back(engine_->get_into(tensors_[i], targets[i]));
  }
  ASSERT_TRUE(engine_->close().has_value());
  for (unsigned i = 0; i < kTensors; ++i) {
    ASSERT_TRUE(tickets_[i].done() && reads[i].done()) << "nothing is in flight any more";
    EXPECT_TRUE(tickets_[i].wait().has_value());
    const Result<void> read = reads[i].wait();
    if (read.has_value()) {
      ASSERT_EQ(targets[i], contents_[i]) << i;
    } else {
      ASSERT_EQ(clear(read.error()), "closed");
    }
  }
  happened("what the drive has got is awaited, what waits for it ends with: closed");
}

PENSTOCK_ON_EVERY_ENGINE(LoadTest);

}  // namespace
}  // namespace penstock
