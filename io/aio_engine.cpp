#include "io/aio_engine.h"

#include <libaio.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "alloc/check.h"
#include "io/aio_refusal.h"
#include "io/event_fd.h"
#include "io/file.h"
#include "io/transfer_threads.h"

namespace penstock {
namespace {

// What the kernel keeps for one user of io_submit; destroyed with its owner, once it was made.
struct AioContext {
  AioContext() = default;
  AioContext(const AioContext&) = delete;
  AioContext& operator=(const AioContext&) = delete;
  ~AioContext() {
    if (raw != nullptr) {
      (void)::io_destroy(raw);  // nothing is in flight; where this is forbidden, the exit does it
    }
  }

  io_context_t raw = nullptr;
};

class AioEngine final : public IoEngine {
 public:
  AioEngine(const IoEngineOptions& options, std::unique_ptr<EventFd> event,
            std::unique_ptr<AioContext> context)
      : IoEngine(options),
        event_(std::move(event)),
        context_(std::move(context)),
        controls_(options.depth),
        events_(options.depth) {
    waiting_.reserve(options.depth);
    refused_.reserve(options.depth);
  }
  ~AioEngine() override { drain(); }

  int completion_fd() const noexcept override { return event_->fd(); }
  std::string_view name() const noexcept override { return "aio"; }
  std::vector<std::string> features() const override {
    return {"eventfd", "threads_for_buffered_files"};
  }

 protected:
  bool issue(Piece& piece) override {
    const File& file = *piece.op->file;
    if (!file.direct().supported && has_threads()) {
      threads_->begin(
          {file.fd(), piece.op->kind, piece.data, piece.offset, piece.bytes, piece.index});
      return true;
    }
    iocb& control = controls_[piece.index];
    const auto prepare = piece.op->kind == IoKind::kRead ? ::io_prep_pread : ::io_prep_pwrite;
    prepare(&control, file.fd(), piece.data, piece.bytes, static_cast<long long>(piece.offset));
    ::io_set_eventfd(&control, event_->fd());
    waiting_.push_back(&control);
    return true;
  }

  // The kernel takes requests one after the other, up to the first that it cannot take: for want of
  // room, or because something is wrong with that one, which then has its result.
  void kick() override {
    std::size_t taken = 0;
    while (taken < waiting_.size()) {
      const int result = ::io_submit(context_->raw, static_cast<long>(waiting_.size() - taken),
                                     waiting_.data() + taken);
      if (result > 0) {
        taken += static_cast<std::size_t>(result);
        in_kernel_ += static_cast<std::uint32_t>(result);
      } else if (result == 0 || result == -EAGAIN) {
        break;
      } else if (result != -EINTR) {
        refused_.push_back({index_of(waiting_[taken]), result});
        ++taken;
      }
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(taken));
    // collect() brings refusals and tries the others again: see to it that it is called.
    if (!refused_.empty() || (!waiting_.empty() && in_kernel_ == 0)) {
      event_->notify();
    }
  }

  void collect(bool block) override {
    while (true) {
      if (block) {
        event_->wait();
      }
      event_->clear();
      const std::size_t count = reap() + reap_threads();
      if (!waiting_.empty()) {
        kick();
      }
      if (count + finish_refused() != 0 || !block) {
        return;
      }
      if (!waiting_.empty() && in_kernel_ == 0) {
        std::this_thread::sleep_for(kSubmitPause);
      }
    }
  }

 private:
  struct Refused {
    std::uint32_t piece_index;
    int result;  // -errno
  };

  // Started with the first file that needs them.
  bool has_threads() {
    if (threads_ == nullptr && !threads_failed_) {
      Result<std::unique_ptr<TransferThreads>> threads =
          TransferThreads::start(options().depth, *event_);
      threads_failed_ = threads.has_error();
      if (threads.has_value()) {
        threads_ = std::move(*threads);
      }
    }
    return threads_ != nullptr;
  }

  std::uint32_t index_of(const iocb* control) const noexcept {
    return static_cast<std::uint32_t>(control - controls_.data());
  }

  // Each of these calls finish() for all that is there and returns for how many.
  std::size_t reap() {
    if (in_kernel_ == 0) {
      return 0;
    }
    timespec no_time{};
    int count = 0;
    do {
      count = ::io_getevents(context_->raw, 0, static_cast<long>(events_.size()), events_.data(),
                             &no_time);
    } while (count == -EINTR);
    if (count == -EPERM || count == -EACCES || count == -ENOSYS) {
      count = read_ring();
    }
    // EFAULT, EINVAL: the context of ours is broken.
    PENSTOCK_CHECK(count >= 0, "io_getevents errno {}", -count);
    const auto results = std::span(events_).first(static_cast<std::size_t>(count));
    in_kernel_ -= static_cast<std::uint32_t>(count);
    for (const io_event& event : results) {
      finish(index_of(event.obj), static_cast<std::int64_t>(event.res));
    }
    return results.size();
  }

  // Where a filter forbids the call after the engine was made: the results lie in memory that the
  // kernel shares, in a form that never changed (struct aio_ring, fs/aio.c).
  int read_ring() {
    struct Ring {
      unsigned id;
      unsigned count;
      unsigned head;
      unsigned tail;
      unsigned magic;
      unsigned compatible;
      unsigned incompatible;
      unsigned header_bytes;
    };
    constexpr unsigned kMagic = 0xa10a10a1;
    Ring& ring = *reinterpret_cast<Ring*>(context_->raw);
    PENSTOCK_CHECK(ring.magic == kMagic && ring.incompatible == 0, "a ring of another form, {:#x}",
                   ring.magic);
    const auto* const results = reinterpret_cast<const io_event*>(
        reinterpret_cast<const std::byte*>(&ring) + ring.header_bytes);
    int count = 0;
    const unsigned tail = std::atomic_ref(ring.tail).load(std::memory_order_acquire);
    unsigned head = ring.head;
    while (head != tail && static_cast<std::size_t>(count) < events_.size()) {
      events_[static_cast<std::size_t>(count++)] = results[head];
      head = (head + 1) % ring.count;
    }
    std::atomic_ref(ring.head).store(head, std::memory_order_release);
    return count;
  }

  std::size_t reap_threads() {
    if (threads_ == nullptr) {
      return 0;
    }
    const std::span<const TransferThreads::Finished> finished = threads_->take_finished();
    for (const TransferThreads::Finished& one : finished) {
      finish(one.tag, one.result);
    }
    return finished.size();
  }

  std::size_t finish_refused() {
    const std::size_t count = refused_.size();
    for (const Refused& one : refused_) {
      finish(one.piece_index, one.result);
    }
    refused_.clear();
    return count;
  }

  std::unique_ptr<EventFd> event_;  // outlives context and threads, which write to it
  std::unique_ptr<AioContext> context_;
  std::unique_ptr<TransferThreads> threads_;
  bool threads_failed_ = false;
  std::vector<iocb> controls_;    // by piece
  std::vector<iocb*> waiting_;    // issued, and not taken by the kernel yet
  std::vector<Refused> refused_;  // by the kernel when they were submitted
  std::vector<io_event> events_;  // room for reap()
  std::uint32_t in_kernel_ = 0;   // requests whose results have not been read yet
};

// 0 or the errno of the first of the calls that the engine lives on: a filter may allow one of them
// and forbid the next.
int make_context(AioContext& context, std::uint32_t depth) {
  if (const int result = ::io_setup(static_cast<int>(depth), &context.raw); result < 0) {
    context.raw = nullptr;
    return -result;
  }
  iocb* no_request = nullptr;
  if (const int result = ::io_submit(context.raw, 0, &no_request); result < 0) {
    return -result;
  }
  io_event event{};
  timespec shortest{0, 1};  // libaio answers a wait of no time by itself
  const int result = ::io_getevents(context.raw, 0, 1, &event, &shortest);
  return result < 0 && result != -EINTR ? -result : 0;
}

}  // namespace

Result<std::unique_ptr<IoEngine>> make_aio_engine(const IoEngineOptions& options) {
  PENSTOCK_TRY(check_options(options));
  Result<std::unique_ptr<EventFd>> event = EventFd::make();
  if (!event) {
    return event.error();
  }
  auto context = std::make_unique<AioContext>();
  if (const int error = make_context(*context, options.depth); error != 0) {
    return explain_aio_refusal(error, read_aio_usage());
  }
  return std::unique_ptr<IoEngine>(
      std::make_unique<AioEngine>(options, std::move(*event), std::move(context)));
}

}  // namespace penstock
