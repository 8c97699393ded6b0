#pragma once

#include <latch>
#include <span>
#include <string>

#include "io/io_queue.h"
#include "tests/alloc/same_bytes.h"
#include "tests/io/test_op.h"

namespace penstock {

/// Runs one operation to its end; returns its errno.
inline int run_one(IoQueue& queue, IoKind kind, const File& file, std::span<std::byte> memory,
                   std::uint64_t offset) {
  std::latch done(1);
  IoOp op;
  op.kind = kind;
  op.file = &file;
  op.data = memory.data();
  op.bytes = memory.size();
  op.offset = offset;
  op.context = &done;
  op.on_complete = [](IoOp& over) noexcept {
    static_cast<std::latch*>(over.context)->count_down();
  };
  queue.submit(op);
  done.wait();
  return op.error;
}

/// Whether bytes written to a new scratch file in `directory` are read back as they were.
inline bool round_trips(IoQueue& queue, const std::string& directory,
                        DirectMode mode = DirectMode::kAuto) {
  const Result<File> file = File::create_scratch(directory, mode);
  if (!file) {
    return false;
  }
  const Memory source = pages(3 * kMiB + 8 * kKiB);
  const Memory target = pages(source.bytes());
  fill_random(source.span(), 7);
  return run_one(queue, IoKind::kWrite, *file, source.span(), 4 * kKiB) == 0 &&
         run_one(queue, IoKind::kRead, *file, target.span(), 4 * kKiB) == 0 &&
         same_bytes(source.span(), target.span());
}

}  // namespace penstock
