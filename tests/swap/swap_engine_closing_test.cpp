// A durable store is others' once nothing of this process writes to it any more, and not before.

#include <gmock/gmock.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "tests/store/flaky_file_system.h"
#include "tests/swap/engine_fixture.h"
#include "tests/swap/sim_engine_fixture.h"

namespace penstock {
namespace {

/// On a drive where nothing moves until a caller waits.
class SwapEngineClosingTest : public SimEngineFixture {
 protected:
  static constexpr std::uint64_t kBytes = kMiB;

  SwapEngineClosingTest() : SimEngineFixture(256 * kMiB) { file_system_ = &system_; }
  void TearDown() override { engine_.reset(); }  // before its file system
  void open_durable() {
    EngineConfig config;
    config.mode = StoreMode::kDurable;
    open(8 * kMiB, 0, config);
  }

  FlakyFileSystem system_{disk_};
};

TEST_F(SwapEngineClosingTest, WaitsForAPutThatBeginsWhileTheStoreIsPublished) {
  open_durable();
  const TensorId tensor = declare("t", kBytes);
  const std::vector<std::byte> data(kBytes, std::byte{1});
  engine_->put(tensor, data).wait().value();
  Ticket meanwhile;
  bool has_begun = false;
  system_.set_watch([&](const std::string& call) {
    if (call.starts_with("sync ") && !std::exchange(has_begun, true)) {
      meanwhile = engine_->put(tensor, data);
      EXPECT_FALSE(meanwhile.done());
    }
  });
  engine_->close_namespace(space_).value();
  ASSERT_TRUE(has_begun);
  EXPECT_TRUE(meanwhile.done()) << "it writes to a store that others may have opened";
}

/// No ticket is waited for.
TEST_F(SwapEngineClosingTest, APutThatFailedIsSaidByTheCloseOfItsNamespace) {
  for (const bool closes_other : {false, true}) {
    open_durable();
    const std::string name = closes_other ? "u" : "t";
    const TensorId tensor = declare(name, kBytes);
    const NamespaceId other = engine_->open_namespace("other", {{"/other", {}, {}}}).value();
    const std::vector<std::byte> data(kBytes, std::byte{1});
    engine_->put(tensor, data).wait().value();
    disk_.set_bad_range(kBytes, 8 * kBytes);
    (void)engine_->put(tensor, data);
    if (closes_other) {
      EXPECT_TRUE(engine_->close_namespace(other).has_value());
    }
    const Result<void> closed = engine_->close_namespace(space_);
    ASSERT_TRUE(closed.has_error());
    EXPECT_EQ(closed.error().system_errno(), EIO);
    EXPECT_EQ(closed.error().tensor, name);
    EXPECT_TRUE(engine_->check().has_value()) << "said once";
    disk_.set_bad_range(0, 0);
  }
}

class SwapEngineClosingStreamTest : public EngineFixture {
 protected:
  Result<NamespaceId> open_again() {
    return engine_->open_namespace("again", {{directory_.path(), {}, {}}});
  }
};

TEST_F(SwapEngineClosingStreamTest, AStoreIsKeptWhileAContentIsWrittenInParts) {
  EngineConfig config;
  config.mode = StoreMode::kDurable;
  open(8 * kMiB, 0, config);
  const std::vector<std::byte> data = content(24 * kMiB, 1);
  const TensorId tensor = declare("t", data.size());
  std::optional<ContentWriter> writer = engine_->write().value();
  writer->begin(tensor).value();
  writer->append(std::span(data).first(data.size() / 2)).value();
  engine_->close_namespace(space_).value();
  const Result<NamespaceId> refused = open_again();
  ASSERT_TRUE(refused.has_error()) << "what is appended now destroys what is put there";
  EXPECT_EQ(refused.error().system_errno(), EBUSY);
  (void)writer->append(std::span(data).last(data.size() / 2));
  (void)writer->end();
  EXPECT_TRUE(writer->publish().has_error()) << "the tensor has gone with its namespace";
  EXPECT_TRUE(open_again().has_error());
  writer.reset();
  const Result<NamespaceId> opened = open_again();
  ASSERT_TRUE(opened.has_value()) << opened.error().message;
  EXPECT_THAT(engine_->tensors(*opened), testing::IsEmpty());
}

}  // namespace
}  // namespace penstock
