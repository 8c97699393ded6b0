#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <limits>
#include <vector>

#include "io/io_engine.h"
#include "tests/io/temp_directory.h"
#include "tests/io/test_op.h"

namespace penstock {

/// An engine without a kernel: the test sees what is issued and says what comes of it.
class ScriptedEngine final : public IoEngine {
 public:
  struct Issued {
    IoOp* op;
    std::byte* data;
    std::uint64_t offset;
    std::uint32_t bytes;
    std::uint32_t piece_index;
  };

  explicit ScriptedEngine(const IoEngineOptions& options) : IoEngine(options) {}
  ~ScriptedEngine() override {
    drain_by_itself = true;
    drain();
  }

  int completion_fd() const noexcept override { return -1; }
  std::string_view name() const noexcept override { return "scripted"; }

  /// The answer to `issued` at the next poll(): bytes or -errno.
  void answer(const Issued& issued, std::int64_t result) {
    answers_.push_back({issued.piece_index, result});
  }
  /// Answers all that is outstanding with success.
  void answer_all() {
    for (const Issued& request : take_issued()) {
      answer(request, request.bytes);
    }
  }
  /// What was issued since the last call, in order.
  std::vector<Issued> take_issued() { return std::exchange(issued_, {}); }
  /// The only one of that.
  Issued take_one() {
    const std::vector<Issued> all = take_issued();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Issued{} : all.front();
  }

  std::uint32_t room = std::numeric_limits<std::uint32_t>::max();  // issues until it says no
  int kicks = 0;
  bool drain_by_itself = false;  // a blocking collect() answers with success

 protected:
  bool issue(Piece& piece) override {
    if (room == 0) {
      return false;
    }
    --room;
    issued_.push_back({piece.op, piece.data, piece.offset, piece.bytes, piece.index});
    return true;
  }
  void kick() override { ++kicks; }
  void collect(bool block) override {
    if (block && drain_by_itself) {
      answer_all();
    }
    while (!answers_.empty()) {
      const Answer next = answers_.front();
      answers_.pop_front();
      finish(next.piece_index, next.result);
    }
  }

 private:
  struct Answer {
    std::uint32_t piece_index;
    std::int64_t result;
  };
  std::vector<Issued> issued_;
  std::deque<Answer> answers_;
};

/// A scripted engine of blocks of 16 KiB, and a buffered and a direct file for its operations to
/// name.
class ScriptedFixture : public testing::Test {
 protected:
  static constexpr std::uint32_t kBlock = 16 * 1024;

  explicit ScriptedFixture(std::uint32_t depth = 4) : engine_({kBlock, depth}) {}

  TestOp& submit(TestOp& op, IoKind kind, std::uint64_t bytes, std::uint64_t offset = 0) {
    op.set(kind, buffered_, memory_.span().first(bytes), offset);
    engine_.submit(op);
    return op;
  }

  TempDirectory directory_;
  File buffered_ =
      std::move(File::create_scratch(directory_.path(), DirectMode::kBuffered)).value();
  Memory memory_ = pages(64 * kBlock);
  ScriptedEngine engine_;
};

}  // namespace penstock
