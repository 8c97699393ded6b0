#include "io/thread_engine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "io/blocked_signals.h"
#include "io/event_fd.h"
#include "io/file.h"
#include "io/handler_storage.h"

namespace penstock {
namespace {

constexpr std::uint32_t kThreadsMax = 8;

// What a worker needs to know of a piece; by value, since the piece is the polling thread's.
struct Request {
  int fd;
  IoKind kind;
  std::byte* data;
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint32_t piece_index;
};

struct Finished {
  std::uint32_t piece_index;
  std::int64_t result;  // bytes or -errno
};

std::int64_t transfer(const Request& request) {
  const auto offset = static_cast<::off_t>(request.offset);
  const ssize_t moved = request.kind == IoKind::kRead
                            ? ::pread(request.fd, request.data, request.bytes, offset)
                            : ::pwrite(request.fd, request.data, request.bytes, offset);
  return moved < 0 ? -errno : moved;
}

class ThreadEngine final : public IoEngine {
 public:
  ThreadEngine(const IoEngineOptions& options, std::unique_ptr<EventFd> event)
      : IoEngine(options), event_(std::move(event)), storages_(options.depth) {
    arrived_.reserve(options.depth);
    reaped_.reserve(options.depth);
    // Workers inherit the mask: a signal of the program's must not run on them, and one that a
    // write raises (SIGXFSZ, beyond `ulimit -f`) must leave its EFBIG instead of ending the
    // process.
    const BlockedSignals while_starting;
    pool_.emplace(thread_count());
  }
  ~ThreadEngine() override {
    drain();
    pool_->join();
  }

  int completion_fd() const noexcept override { return event_->fd(); }
  std::string_view name() const noexcept override { return "threads"; }
  std::vector<std::string> features() const override {
    return {fmt::format("threads={}", thread_count())};
  }

 protected:
  bool issue(Piece& piece) override {
    const Request request{piece.op->file->fd(), piece.op->kind, piece.data,
                          piece.offset,         piece.bytes,    piece.index};
    const HandlerAllocator<void> allocator(storages_[piece.index]);
    boost::asio::post(*pool_, boost::asio::bind_allocator(allocator, [this, request] {
      arrive({request.piece_index, transfer(request)});
    }));
    return true;
  }

  void kick() override {}  // a worker was told by each issue()

  void collect(bool block) override {
    do {
      if (block) {
        event_->wait();
      }
      event_->clear();
      const std::lock_guard lock(mutex_);
      reaped_.swap(arrived_);
    } while (block && reaped_.empty());
    for (const Finished& finished : reaped_) {
      finish(finished.piece_index, finished.result);
    }
    reaped_.clear();
  }

 private:
  std::uint32_t thread_count() const noexcept { return std::min(options().depth, kThreadsMax); }

  void arrive(Finished finished) {
    {
      const std::lock_guard lock(mutex_);
      arrived_.push_back(finished);
    }
    event_->notify();
  }

  std::unique_ptr<EventFd> event_;
  std::vector<HandlerStorage> storages_;  // by piece
  std::mutex mutex_;
  std::vector<Finished> arrived_;  // guarded by mutex_; never beyond `depth`
  std::vector<Finished> reaped_;   // the polling thread's
  std::optional<boost::asio::thread_pool> pool_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_thread_engine(const IoEngineOptions& options) {
  PENSTOCK_TRY(check_options(options));
  Result<std::unique_ptr<EventFd>> event = EventFd::make();
  if (!event) {
    return event.error();
  }
  try {
    return std::unique_ptr<IoEngine>(new ThreadEngine(options, std::move(*event)));
  } catch (const std::system_error& error) {
    return system_error(error.code().value(),
                        "cannot start the I/O threads (`ulimit -u` limits threads)");
  }
}

}  // namespace penstock
