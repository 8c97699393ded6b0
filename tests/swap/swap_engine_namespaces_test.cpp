// What a namespace took it gives back when it is closed: several, one after the other, cost no more
// than one.

#include <cerrno>
#include <filesystem>

#include "tests/alloc/refusing_source.h"
#include "tests/swap/engine_fixture.h"

namespace penstock {
namespace {

class SwapEngineNamespacesTest : public EngineFixture {
 protected:
  static constexpr std::uint64_t kBytes = 2 * kMiB;
  static constexpr unsigned kTensors = 16;
  static constexpr std::uint64_t kLittle = kMiB;  // what does not grow with contents

  struct Holdings {
    std::size_t descriptors = 0;
    std::uint64_t drive_bytes = 0;
    std::uint64_t resident_bytes = 0;
    std::uint64_t lookahead_bytes = 0;
    std::uint64_t pageable_bytes = 0;
    std::uint64_t slot_bytes = 0;
  };

  void SetUp() override { pageable_ = memory_; }
  static std::size_t descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  Holdings holdings() const {
    const SwapStats stats = engine_->stats();
    return {descriptors(),         stats.drive_bytes,     stats.resident_bytes,
            stats.lookahead_bytes, memory_->held_bytes(), stats.pool.slot_bytes_live};
  }
  /// Once what is in flight has ended.
  void expect_given_back(std::size_t descriptors_before) {
    const auto all_back = [&] {
      const Holdings now = holdings();
      return now.descriptors == descriptors_before && now.drive_bytes == 0 &&
             now.resident_bytes == 0 && now.lookahead_bytes == 0 && now.pageable_bytes <= kLittle &&
             now.slot_bytes == 0;
    };
    EXPECT_TRUE(eventually(all_back, std::chrono::seconds(10)));
    const Holdings now = holdings();
    EXPECT_EQ(now.descriptors, descriptors_before);
    EXPECT_EQ(now.drive_bytes, 0U);
    EXPECT_EQ(now.resident_bytes, 0U);
    EXPECT_EQ(now.lookahead_bytes, 0U);
    EXPECT_LE(now.pageable_bytes, kLittle);
    EXPECT_EQ(now.slot_bytes, 0U);
  }

  void open_round() {
    space_ = engine_->open_namespace("round", {{directory_.path(), {}, {}}}).value();
    tensors_.clear();
    for (unsigned i = 0; i < kTensors; ++i) {
      tensors_.push_back(declare(numbered(i), kBytes));
      put(tensors_.back(), content(kBytes, i));
    }
    ASSERT_TRUE(engine_->plan().has_value());
  }
  /// More than the pool holds, twice, so that there is something to read ahead.
  void use_all() {
    for (int turn = 0; turn < 2; ++turn) {
      std::vector<Lease> held;
      for (unsigned i = 0; i < kTensors; ++i) {
        held.push_back(engine_->get(tensors_[i]).lease().value());
        EXPECT_EQ(std::memcmp(held.back().data(), content(kBytes, i).data(), kBytes), 0);
      }
    }
  }

  std::shared_ptr<RefusingSource> memory_ = std::make_shared<RefusingSource>();
  std::vector<TensorId> tensors_;
};

TEST_F(SwapEngineNamespacesTest, RoundsGiveBackWhatTheyTook) {
  open(16 * kMiB, 6 * kMiB);
  ASSERT_TRUE(engine_->close_namespace(space_).has_value());
  const std::size_t before = descriptors();
  for (int round = 0; round < 5; ++round) {
    open_round();
    use_all();
    const Holdings used = holdings();
    EXPECT_GT(used.descriptors, before);
    EXPECT_GT(used.drive_bytes, 0U);
    EXPECT_GT(used.resident_bytes, 0U);
    EXPECT_GT(engine_->stats().pool.pinned_bytes, 8 * kMiB);
    ASSERT_TRUE(engine_->close_namespace(space_).has_value());
    expect_given_back(before);
    ASSERT_TRUE(engine_->plan().has_value());
    EXPECT_EQ(engine_->stats().pool.pinned_bytes, 0U);
  }
  (void)engine_->overflow_advice();
}

// Python's `path=` and C's `paths` name directories only; the configuration may list them, too.
TEST_F(SwapEngineNamespacesTest, ALimitOfTheConfigurationHoldsForADirectoryThatACallerNames) {
  const std::string later = directory_.path() + "/later";  // is not there yet
  EngineConfig config;
  config.paths = {{directory_.path() + "/.", std::nullopt, 6 * kMiB},
                  {later, std::nullopt, 6 * kMiB}};
  open(8 * kMiB, 0, config);
  for (const std::string& named : {directory_.path(), later + "/"}) {
    space_ = engine_->open_namespace(named, {{named, std::nullopt, std::nullopt}}).value();
    put(declare("fits", 2 * kMiB), content(2 * kMiB, 1));
    const TensorId tensor = declare("too much", 8 * kMiB);
    const Result<void> put = engine_->put(tensor, content(8 * kMiB, 2)).wait();
    ASSERT_TRUE(put.has_error()) << named;
    EXPECT_EQ(put.error().system_errno(), ENOSPC) << put.error().message;
  }
}

TEST_F(SwapEngineNamespacesTest, WritesInFlightAndLeasesOutGiveBackLater) {
  open(16 * kMiB, 0);
  ASSERT_TRUE(engine_->close_namespace(space_).has_value());
  const std::size_t before = descriptors();
  for (int round = 0; round < 5; ++round) {
    open_round();
    std::vector<Lease> held;
    for (unsigned i = 0; i < kTensors; i += 2) {
      held.push_back(engine_->get(tensors_[i]).lease().value());
    }
    std::vector<std::vector<std::byte>> sources;
    std::vector<Ticket> tickets;
    for (unsigned i = 0; i < kTensors; ++i) {
      sources.push_back(content(kBytes, 100 + i));
      tickets.push_back(i % 3 == 0 ? commit(tensors_[i], sources.back())
                                   : engine_->put(tensors_[i], sources.back()));
    }
    engine_->prefetch(tensors_);
    ASSERT_TRUE(engine_->close_namespace(space_).has_value());
    EXPECT_EQ(engine_->stats().resident_bytes, 0U);
    ASSERT_TRUE(engine_->plan().has_value());
    for (std::size_t i = 0; i < held.size(); ++i) {
      const std::vector<std::byte> was = content(kBytes, static_cast<unsigned>(2 * i));
      EXPECT_EQ(std::memcmp(held[i].data(), was.data(), kBytes), 0);
    }
    for (const Ticket& ticket : tickets) {
      (void)ticket.wait();  // whatever becomes of it, it ends
    }
    held.clear();
    expect_given_back(before);
    EXPECT_TRUE(eventually([&] { return engine_->stats().pool.pinned_bytes == 0; }));
  }
  EXPECT_TRUE(engine_->flush().has_value());
  (void)engine_->overflow_advice();
}

TEST_F(SwapEngineNamespacesTest, APlanOfFewerTensorsPinsLess) {
  open(64 * kMiB, 0);
  const NamespaceId small = space_;
  const TensorId tensor = declare("small", kBytes);
  put(tensor, content(kBytes, 50));
  open_round();
  const std::uint64_t pinned = engine_->stats().pool.pinned_bytes;
  EXPECT_GT(pinned, 32 * kMiB);
  ASSERT_TRUE(engine_->close_namespace(space_).has_value());
  ASSERT_TRUE(engine_->plan().has_value());
  EXPECT_LE(engine_->stats().pool.pinned_bytes, kBytes + 4 * kMiB) << "a slot, and the chunks";
  space_ = small;
  expect_content(tensor, content(kBytes, 50));
}

}  // namespace
}  // namespace penstock
