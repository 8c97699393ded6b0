#include "io/transfer_threads.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "io/blocked_signals.h"

namespace penstock {

std::int64_t TransferThreads::transfer(const Request& request) {
  const auto offset = static_cast<::off_t>(request.offset);
  const ssize_t moved = request.kind == IoKind::kRead
                            ? ::pread(request.fd, request.data, request.bytes, offset)
                            : ::pwrite(request.fd, request.data, request.bytes, offset);
  return moved < 0 ? -errno : moved;
}

Result<std::unique_ptr<TransferThreads>> TransferThreads::start(std::uint32_t requests_max,
                                                                EventFd& event) {
  std::unique_ptr<TransferThreads> threads(new TransferThreads(requests_max, event));
  PENSTOCK_TRY(threads->start_threads(std::min(requests_max, kThreadsMax)));
  return threads;
}

TransferThreads::TransferThreads(std::uint32_t requests_max, EventFd& event)
    : event_(event), storages_(requests_max), work_(boost::asio::make_work_guard(context_)) {
  arrived_.reserve(requests_max);
  taken_.reserve(requests_max);
}

TransferThreads::~TransferThreads() {
  work_.reset();
  threads_.clear();
}

// Not Asio's thread_pool, which waits for ever for its first threads where a later one cannot be
// started.
Result<void> TransferThreads::start_threads(std::uint32_t wanted) {
  const BlockedSignals while_starting;  // threads inherit the mask
  threads_.reserve(wanted);
  while (threads_.size() < wanted) {
    Result<SmallThread> thread = SmallThread::start([this] { context_.run(); });
    if (thread.has_error()) {
      if (threads_.empty()) {
        return system_error(thread.error().system_errno(),
                            "cannot start the I/O threads (`ulimit -u` limits threads)");
      }
      break;
    }
    threads_.push_back(*std::move(thread));
  }
  return {};
}

void TransferThreads::begin(const Request& request) {
  const HandlerAllocator<void> allocator(storages_[request.tag]);
  boost::asio::post(context_, boost::asio::bind_allocator(allocator, [this, request] {
                      arrive({request.tag, transfer(request)});
                    }));
}

std::span<const TransferThreads::Finished> TransferThreads::take_finished() {
  taken_.clear();
  const std::lock_guard lock(mutex_);
  taken_.swap(arrived_);
  return taken_;
}

void TransferThreads::arrive(Finished finished) {
  {
    const std::lock_guard lock(mutex_);
    arrived_.push_back(finished);
  }
  event_.notify();
}

}  // namespace penstock
