#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "alloc/result.h"
#include "io/event_fd.h"
#include "io/handler_storage.h"
#include "io/io_op.h"
#include "io/small_thread.h"

namespace penstock {

/// pread and pwrite on a few threads: what carries requests that the kernel does not carry by
/// itself. All signals are blocked there, so that one which a write raises (SIGXFSZ, beyond
/// `ulimit -f`) leaves its EFBIG instead of ending the process.
///
/// One thread begins transfers and takes their ends.
class TransferThreads {
 public:
  static constexpr std::uint32_t kThreadsMax = 8;

  struct Request {
    int fd = -1;
    IoKind kind = IoKind::kRead;
    std::byte* data = nullptr;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    std::uint32_t tag = 0;  ///< below `requests_max`; the caller's, one at a time
  };
  struct Finished {
    std::uint32_t tag = 0;
    std::int64_t result = 0;  ///< bytes or -errno
  };

  /// Moves the bytes on the calling thread, which waits for them. Returns bytes or -errno.
  static std::int64_t transfer(const Request& request);

  /// `min(requests_max, kThreadsMax)` threads, or as many as the system allows. Each end makes
  /// `event` readable, which must outlive this. Errors: not even one thread can be started.
  static Result<std::unique_ptr<TransferThreads>> start(std::uint32_t requests_max, EventFd& event);
  /// Waits for what is under way.
  ~TransferThreads();
  TransferThreads(const TransferThreads&) = delete;
  TransferThreads& operator=(const TransferThreads&) = delete;

  void begin(const Request& request);
  /// What has ended since the last call; valid until the next one.
  std::span<const Finished> take_finished();
  std::size_t count() const noexcept { return threads_.size(); }

 private:
  TransferThreads(std::uint32_t requests_max, EventFd& event);
  Result<void> start_threads(std::uint32_t wanted);
  void arrive(Finished finished);

  EventFd& event_;
  std::vector<HandlerStorage> storages_;  // by tag
  std::mutex mutex_;
  std::vector<Finished> arrived_;  // guarded by mutex_; never beyond `requests_max`
  std::vector<Finished> taken_;    // the taking thread's
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<SmallThread> threads_;
};

}  // namespace penstock
