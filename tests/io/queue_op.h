#pragma once

#include <functional>
#include <latch>
#include <thread>

#include "tests/io/test_op.h"

namespace penstock {

/// An operation that counts down a latch, and remembers where it was called.
struct QueueOp : TestOp {
  QueueOp() {
    on_complete = [](IoOp& op) noexcept {
      auto& self = static_cast<QueueOp&>(op);
      ++self.calls;
      self.thread = std::this_thread::get_id();
      if (self.before_done) {
        self.before_done();
      }
      self.done->count_down();
    };
  }

  std::latch* done = nullptr;
  std::thread::id thread;
  std::function<void()> before_done;
};

}  // namespace penstock
