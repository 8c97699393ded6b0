#pragma once

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "io/io_queue.h"

namespace penstock {

/// What async_read and async_write end with: an errno (ENODATA: the file ended early;
/// boost::asio::error::operation_aborted: cancelled, or the queue was stopped) and how many bytes
/// were moved: all, or 0 with an error, since parts move in any order.
using AsyncIoSignature = void(boost::system::error_code, std::size_t);

namespace detail {

/// The way from a cancellation signal to an operation that may not have been submitted yet, or may
/// have ended, on another thread.
class CancellationLink {
 public:
  CancellationLink(IoQueue& queue, IoOp& op) : queue_(queue), op_(&op) {}

  void cancel() {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    pass_on();
  }
  void submitted() {
    const std::lock_guard lock(mutex_);
    submitted_ = true;
    pass_on();
  }
  void ended() {
    const std::lock_guard lock(mutex_);
    op_ = nullptr;
  }

 private:
  void pass_on() {
    if (cancelled_ && submitted_ && op_ != nullptr) {
      queue_.cancel(*op_);
    }
  }

  IoQueue& queue_;
  std::mutex mutex_;
  bool cancelled_ = false;
  bool submitted_ = false;
  IoOp* op_;  // null once it has ended
};

struct Transfer {
  IoKind kind = IoKind::kRead;
  const File* file = nullptr;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::uint64_t offset = 0;
};

/// An operation and the handler that is called when it ends. Owns itself from start() until then.
template <class Handler>
class AsyncIo final : public IoOp {
 public:
  static void start(IoQueue& queue, const Transfer& transfer, Handler handler) {
    Allocator allocator(boost::asio::get_associated_allocator(handler));
    AsyncIo* const room = std::allocator_traits<Allocator>::allocate(allocator, 1);
    AsyncIo& op = *std::construct_at(room, queue, transfer, std::move(handler));
    const std::shared_ptr<CancellationLink> link = op.link_;
    queue.submit(op);  // it may have ended already when this returns
    if (link != nullptr) {
      link->submitted();
    }
  }

  AsyncIo(IoQueue& queue, const Transfer& transfer, Handler handler)
      : handler_(std::move(handler)), work_(boost::asio::make_work_guard(handler_)) {
    kind = transfer.kind;
    file = transfer.file;
    data = transfer.data;
    bytes = transfer.bytes;
    offset = transfer.offset;
    on_complete = [](IoOp& op) noexcept { static_cast<AsyncIo&>(op).end(); };
    auto slot = boost::asio::get_associated_cancellation_slot(handler_);
    if (slot.is_connected()) {
      link_ = std::make_shared<CancellationLink>(queue, *this);
      slot.assign([link = link_](boost::asio::cancellation_type type) {
        if (type != boost::asio::cancellation_type::none) {
          link->cancel();
        }
      });
    }
  }

 private:
  using Allocator = typename std::allocator_traits<
      boost::asio::associated_allocator_t<Handler>>::template rebind_alloc<AsyncIo>;
  using Work = decltype(boost::asio::make_work_guard(std::declval<Handler&>()));

  // On the queue's thread, or within submit() where the queue was stopped: always posted, so that
  // no handler runs on the one or before the other has returned. The memory is given back first:
  // the handler may begin the next operation with it.
  void end() {
    if (link_ != nullptr) {
      link_->ended();
    }
    const boost::system::error_code code(error, boost::system::system_category());
    const std::size_t moved = error == 0 ? bytes : 0;
    const Work work = std::move(work_);
    Handler handler = std::move(handler_);
    Allocator allocator(boost::asio::get_associated_allocator(handler));
    std::destroy_at(this);
    std::allocator_traits<Allocator>::deallocate(allocator, this, 1);
    boost::asio::post(work.get_executor(),
                      boost::asio::bind_allocator(
                          allocator, [handler = std::move(handler), code, moved]() mutable {
                            std::move(handler)(code, moved);
                          }));
  }

  Handler handler_;
  Work work_;  // keeps the handler's io_context running until the handler was called
  std::shared_ptr<CancellationLink> link_;
};

template <class Token>
auto initiate_io(IoQueue& queue, const Transfer& transfer, Token& token) {
  return boost::asio::async_initiate<Token, AsyncIoSignature>(
      [](auto handler, IoQueue* on, const Transfer& what) {
        AsyncIo<decltype(handler)>::start(*on, what, std::move(handler));
      },
      token, &queue, transfer);
}

}  // namespace detail

/// Reads `buffer.size()` bytes at `offset`, as an Asio program reads from a socket: `token` is a
/// callback, boost::asio::use_future, use_awaitable, deferred… The end is posted to the handler's
/// associated executor; a handler that has none runs on a thread of Asio's system_context, never on
/// the queue's. Its cancellation slot leads to IoQueue::cancel and may be signalled from any
/// thread. `queue`, `file` and `buffer` must stay until then. Direct files want `buffer` and
/// `offset` aligned as File::direct() says.
template <boost::asio::completion_token_for<AsyncIoSignature> Token>
auto async_read(IoQueue& queue, const File& file, std::span<std::byte> buffer, std::uint64_t offset,
                Token&& token) {
  return detail::initiate_io(queue, {IoKind::kRead, &file, buffer.data(), buffer.size(), offset},
                             token);
}

/// Writes `buffer` at `offset`; all else as async_read().
template <boost::asio::completion_token_for<AsyncIoSignature> Token>
auto async_write(IoQueue& queue, const File& file, std::span<const std::byte> buffer,
                 std::uint64_t offset, Token&& token) {
  // An operation has one pointer for both ways; writing only reads through it.
  return detail::initiate_io(
      queue, {IoKind::kWrite, &file, const_cast<std::byte*>(buffer.data()), buffer.size(), offset},
      token);
}

}  // namespace penstock
