// A durable store is others' once nothing of this process writes to it any more, and not before.

#include <cerrno>

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

}  // namespace
}  // namespace penstock
