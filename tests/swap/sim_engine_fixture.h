#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "alloc/bytes.h"
#include "io/sim_disk.h"
#include "io/sim_engine.h"
#include "swap/swap_engine.h"

namespace penstock {

/// An engine over a simulated drive, on which nothing moves until a caller waits.
class SimEngineFixture : public ::testing::Test {
 protected:
  explicit SimEngineFixture(std::uint64_t capacity_bytes) : disk_({1, capacity_bytes, {}}) {}

  void open(std::uint64_t max_pinned_bytes, std::uint64_t ram_bytes, EngineConfig config = {}) {
    SwapEngineOptions options;
    options.config = std::move(config);
    Budgets budgets;
    budgets.max_pinned_bytes = max_pinned_bytes;
    budgets.ram_bytes = ram_bytes;
    budgets.max_pinned_given = true;
    budgets.ram_given = true;
    budgets.quarter_bytes = 64 * kMiB;
    options.budgets = budgets;
    options.file_system = file_system_;
    options.warn = [](const Warning&) {};
    options.make_queue = [this](const IoEngineOptions& io) -> Result<std::unique_ptr<IoQueue>> {
      return IoQueue::start_for_caller(make_sim_engine(disk_, io));
    };
    engine_ = SwapEngine::open(std::move(options)).value();
    space_ = engine_->open_namespace("sim", {{"/sim", std::nullopt, std::nullopt}}).value();
  }
  TensorId declare(const std::string& name, std::uint64_t bytes) {
    return engine_->declare(space_, {name, DType::kU8, {bytes}, Role::kParam}).value();
  }

  SimDisk disk_;
  FileSystem* file_system_ = &disk_;  // of the next engine
  std::unique_ptr<SwapEngine> engine_;
  NamespaceId space_{};
};

}  // namespace penstock
