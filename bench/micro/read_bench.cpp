// What reading costs: CPU time a GB of direct reads of 1 MiB through IoQueue, 8 at once, into
// registered memory, all threads of the process counted. `huge` memory is one piece, as our pools
// have it, for which the kernel may take huge pages; `small` is pieces of 1 MiB, which are made of
// pages of 4 KiB, as fio's are.
//
//   PENSTOCK_TMP=/nvme0 build/release/bench/micro/bench_read --benchmark_repetitions=10

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <latch>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/page_source.h"
#include "bench/measure/cpu_clock.h"
#include "io/file.h"
#include "io/io_queue.h"

namespace penstock {
namespace {

constexpr std::uint64_t kFileBytes = 256 * kMiB;
constexpr std::uint32_t kDepth = 8;

File make_file() {
  const char* const directory = std::getenv("PENSTOCK_TMP");
  File file = File::create_scratch(directory == nullptr ? "." : directory).value();
  const Memory block = PageSource::make()->allocate(kMiB).value();
  for (std::uint64_t at = 0; at < kFileBytes; at += kMiB) {
    file.write_at(at, block.span()).value();
  }
  return file;
}

// Each operation that ends begins the next one.
class Reader {
 public:
  Reader(IoQueue& queue, const File& file, const std::vector<std::byte*>& blocks)
      : queue_(queue), done_(static_cast<std::ptrdiff_t>(blocks.size())) {
    for (std::byte* const block : blocks) {
      IoOp& op = ops_.emplace_back();
      op.file = &file;
      op.data = block;
      op.bytes = kMiB;
      op.context = this;
      op.on_complete = [](IoOp& over) noexcept { static_cast<Reader*>(over.context)->next(over); };
    }
  }
  /// False: a read failed.
  bool run() {
    for (IoOp& op : ops_) {
      next(op);
    }
    done_.wait();
    return !failed_;
  }

 private:
  void next(IoOp& op) {
    const std::uint64_t at = begun_.fetch_add(kMiB);
    failed_ = failed_ || op.error != 0;
    if (at >= kFileBytes) {
      done_.count_down();
      return;
    }
    op.offset = at;
    queue_.submit(op);
  }

  IoQueue& queue_;
  std::latch done_;
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<bool> failed_{false};
  std::deque<IoOp> ops_;
};

void read(benchmark::State& state, std::uint64_t piece_bytes) {
  const File file = make_file();
  const auto queue = IoQueue::start(EngineKind::kAuto, {.depth = kDepth}).value();
  std::deque<Memory> memory;
  std::vector<std::byte*> blocks;
  bool registered = true;
  while (blocks.size() < kDepth) {
    memory.push_back(PageSource::make()->allocate(piece_bytes).value());
    registered = queue->register_memory(memory.back().span()).has_value() && registered;
    for (std::uint64_t at = 0; at < piece_bytes; at += kMiB) {
      blocks.push_back(memory.back().data() + at);
    }
  }
  state.SetLabel(std::string(queue->engine_name()) + (registered ? ", registered" : "") +
                 (file.direct().supported ? ", direct" : ""));
  const double before = bench::process_cpu_time().seconds();
  for ([[maybe_unused]] auto _ : state) {
    if (!Reader(*queue, file, blocks).run()) {
      state.SkipWithError("a read failed");
      break;
    }
  }
  const double spent = bench::process_cpu_time().seconds() - before;
  const auto bytes = static_cast<double>(kFileBytes) * static_cast<double>(state.iterations());
  state.counters["cpu_ms_per_gb"] = spent * 1e12 / bytes;
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
  for (const Memory& piece : memory) {
    queue->unregister_memory(piece.span());
  }
}

BENCHMARK_CAPTURE(read, huge, kDepth* kMiB)->UseRealTime();
BENCHMARK_CAPTURE(read, small, kMiB)->UseRealTime();

}  // namespace
}  // namespace penstock

BENCHMARK_MAIN();
