#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "alloc/bytes.h"
#include "io/file_system.h"
#include "swap/swap_engine.h"
#include "tests/alloc/random_bytes.h"
#include "tests/io/temp_directory.h"

namespace penstock {

/// An engine over a directory of its own, with budgets that a test chooses.
class EngineFixture : public ::testing::Test {
 protected:
  void open(std::uint64_t max_pinned_bytes, std::uint64_t ram_bytes, EngineConfig config = {}) {
    SwapEngineOptions options;
    options.config = std::move(config);
    Budgets budgets;
    budgets.max_pinned_bytes = max_pinned_bytes;
    budgets.ram_bytes = ram_bytes;
    budgets.max_pinned_given = true;
    budgets.ram_given = true;
    budgets.quarter_bytes = kGiB;
    options.budgets = budgets;
    options.io.depth = 8;
    options.pin_hooks = pin_hooks_;
    options.devices = devices_;
    options.pageable = pageable_;
    options.file_system = file_system_;
    options.warn = [this](const Warning& warning) {
      warnings_.push_back(warning.line());
      if (on_warning_) {
        on_warning_();
      }
    };
    engine_ = SwapEngine::open(std::move(options)).value();
    space_ =
        engine_->open_namespace("test", {{directory_.path(), std::nullopt, std::nullopt}}).value();
  }

  TensorId declare(const std::string& name, std::uint64_t bytes) {
    return engine_->declare(space_, {name, DType::kU8, {bytes}, Role::kParam}).value();
  }

  static std::string numbered(std::size_t i) { return fmt::format("t{}", i); }

  static std::vector<std::byte> content(std::uint64_t bytes, unsigned seed) {
    return random_bytes(bytes, seed);
  }

  void put(TensorId tensor, const std::vector<std::byte>& data) {
    const Result<void> done = engine_->put(tensor, data).wait();
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }

  /// For what the I/O thread releases a moment after the ticket has ended.
  template <class Condition>
  static bool eventually(Condition condition,
                         std::chrono::seconds limit = std::chrono::seconds(60)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

  /// Through allocate and commit, as a runtime hands over what it has computed.
  Ticket commit(TensorId tensor, const std::vector<std::byte>& data) {
    Lease lease = engine_->allocate(tensor).value();
    std::memcpy(lease.data(), data.data(), data.size());
    return engine_->commit(lease);
  }

  void expect_content(TensorId tensor, const std::vector<std::byte>& data) {
    const Result<Lease> lease = engine_->get(tensor).lease();
    ASSERT_TRUE(lease.has_value()) << lease.error().message;
    ASSERT_EQ(lease.value().bytes(), data.size());
    EXPECT_EQ(std::memcmp(lease.value().data(), data.data(), data.size()), 0);
  }

  TempDirectory directory_;
  std::vector<PinHook> pin_hooks_;  // of the next engine
  std::vector<std::shared_ptr<Device>> devices_;
  std::shared_ptr<MemorySource> pageable_;
  FileSystem* file_system_ = &os_file_system();
  std::vector<std::string> warnings_;
  std::function<void()> on_warning_;
  std::unique_ptr<SwapEngine> engine_;
  NamespaceId space_{};
};

}  // namespace penstock
