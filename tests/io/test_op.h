#pragma once

#include <sys/types.h>

#include <cstring>
#include <string>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "io/file.h"
#include "io/io_engine.h"
#include "tests/alloc/random_bytes.h"

namespace penstock {

/// An operation that remembers how it ended.
struct TestOp : IoOp {
  TestOp() {
    on_complete = [](IoOp& op) noexcept { ++static_cast<TestOp&>(op).calls; };
  }
  TestOp(IoKind op_kind, const File& op_file, std::span<std::byte> memory, std::uint64_t op_offset)
      : TestOp() {
    set(op_kind, op_file, memory, op_offset);
  }
  void set(IoKind op_kind, const File& op_file, std::span<std::byte> memory,
           std::uint64_t op_offset) {
    kind = op_kind;
    file = &op_file;
    data = memory.data();
    bytes = memory.size();
    offset = op_offset;
  }

  int calls = 0;
};

inline Memory pages(std::uint64_t bytes) {
  return std::move(PageSource::make()->allocate(bytes)).value();
}

inline void run_until_idle(IoEngine& engine) {
  while (!engine.idle()) {
    engine.wait();
    engine.poll();
  }
}

}  // namespace penstock
