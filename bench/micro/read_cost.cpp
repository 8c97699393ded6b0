// What reading costs: CPU time a GB of direct reads through IoQueue, all threads of the process
// counted, set-up not. One line of JSON; bench/micro/read_cost.py runs it in turns with fio.
//
//   read_cost FILE [BYTES [DEPTH [ENGINE [huge|small]]]]
//
// FILE is read from its begin, again and again until BYTES (default 1 GiB) have been read, in
// requests of 1 MiB, DEPTH (default 8) of them under way at once, into registered memory: `huge`
// (default) in one piece, as our pools have it, for which the kernel may take huge pages; `small`
// in pieces of 1 MiB, which are made of pages of 4 KiB, as fio's are.

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <latch>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/measure/cpu_clock.h"
#include "io/file.h"
#include "io/io_queue.h"

namespace {

using namespace penstock;
using std::chrono::steady_clock;

constexpr std::uint64_t kBlock = kMiB;

struct Job {
  std::string path;
  std::uint64_t bytes = kGiB;
  std::uint32_t depth = 8;
  EngineKind engine = EngineKind::kUring;
  bool huge = true;
};

/// Reads the file round and round: each operation that ends begins the next one.
class Reader {
 public:
  /// Reads into `blocks`, all at once.
  Reader(IoQueue& queue, const File& file, std::uint64_t file_bytes,
         std::span<std::byte* const> blocks, const Job& job)
      : queue_(queue),
        file_bytes_(file_bytes),
        blocks_(job.bytes / kBlock),
        done_(static_cast<std::ptrdiff_t>(blocks.size())) {
    for (std::byte* const block : blocks) {
      IoOp& op = ops_.emplace_back();
      op.file = &file;
      op.data = block;
      op.bytes = kBlock;
      op.context = this;
      op.on_complete = [](IoOp& over) noexcept { static_cast<Reader*>(over.context)->next(over); };
    }
  }

  /// 0 or the errno of the first read that failed.
  int run() {
    for (IoOp& op : ops_) {
      begin(op);
    }
    done_.wait();
    return error_;
  }

 private:
  void begin(IoOp& op) {
    const std::uint64_t block = begun_.fetch_add(1);
    if (block >= blocks_) {
      done_.count_down();
      return;
    }
    op.offset = block * kBlock % file_bytes_;
    queue_.submit(op);
  }
  void next(IoOp& op) {
    if (op.error != 0) {
      error_ = op.error;
      done_.count_down();
      return;
    }
    begin(op);
  }

  IoQueue& queue_;
  std::uint64_t file_bytes_;
  std::uint64_t blocks_;
  std::latch done_;
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<int> error_{0};
  std::deque<IoOp> ops_;
};

Result<std::string> measure(const Job& job) {
  const Result<File> file = File::open(job.path, File::Access::kRead);
  PENSTOCK_TRY(file);
  const Result<std::uint64_t> size = file->size_bytes();
  PENSTOCK_TRY(size);
  const std::uint64_t file_bytes = *size / kBlock * kBlock;
  if (file_bytes == 0 || job.bytes < kBlock) {
    return fault(Fault::kInvalidArgument,
                 "nothing to read: give a file and BYTES of 1 MiB or more");
  }
  const auto queue = IoQueue::start(job.engine, {.depth = job.depth});
  PENSTOCK_TRY(queue);
  std::deque<Memory> memory;
  std::vector<std::byte*> blocks;
  Result<void> registered;
  const std::uint64_t piece_bytes = job.huge ? job.depth * kBlock : kBlock;
  while (blocks.size() < job.depth) {
    Result<Memory> piece = PageSource::make()->allocate(piece_bytes);
    PENSTOCK_TRY(piece);
    registered = (*queue)->register_memory(piece->span());
    for (std::uint64_t at = 0; at < piece_bytes; at += kBlock) {
      blocks.push_back(piece->data() + at);
    }
    memory.push_back(std::move(*piece));
  }

  Reader reader(**queue, *file, file_bytes, blocks, job);
  const auto begin = steady_clock::now();
  const double cpu_before = bench::process_cpu_time().seconds();
  const int error = reader.run();
  const double cpu = bench::process_cpu_time().seconds() - cpu_before;
  const std::chrono::duration<double> wall = steady_clock::now() - begin;
  if (error != 0) {
    return system_error(error, fmt::format("cannot read {}", job.path), job.path);
  }
  const auto bytes = static_cast<double>((*queue)->stats().read_bytes);
  for (const Memory& piece : memory) {
    (*queue)->unregister_memory(piece.span());
  }
  return fmt::format(
      R"({{"engine": "{}", "direct": {}, "registered": {}, "bytes": {:.0f}, "wall_s": {:.6f}, )"
      R"("cpu_s": {:.6f}, "cpu_ms_per_gb": {:.3f}}})",
      (*queue)->engine_name(), file->direct().supported, registered.has_value(), bytes,
      wall.count(), cpu, cpu * 1e12 / bytes);
}

Result<Job> parse(std::span<char*> arguments) {
  if (arguments.size() < 2 || arguments.size() > 6) {
    return fault(Fault::kInvalidArgument,
                 "usage: read_cost FILE [BYTES [DEPTH [ENGINE [huge|small]]]]");
  }
  Job job;
  job.path = arguments[1];
  if (arguments.size() > 2) {
    const Result<std::uint64_t> bytes = parse_bytes(arguments[2]);
    PENSTOCK_TRY(bytes);
    job.bytes = *bytes;
  }
  if (arguments.size() > 3) {
    job.depth = static_cast<std::uint32_t>(std::stoul(arguments[3]));
  }
  if (arguments.size() > 4) {
    const Result<EngineKind> engine = parse_engine_kind(arguments[4]);
    PENSTOCK_TRY(engine);
    job.engine = *engine;
  }
  job.huge = arguments.size() < 6 || std::string_view(arguments[5]) != "small";
  return job;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Job job = parse({argv, static_cast<std::size_t>(argc)}).value();
    fmt::print("{}\n", measure(job).value());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "read_cost: {}\n", error.what());
    return 1;
  }
}
