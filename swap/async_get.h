#pragma once

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "swap/swap_engine.h"

namespace penstock {

/// What async_get ends with. Not an error_code: an Error names the tensor, the path and the remedy.
using AsyncGetSignature = void(Result<Lease>);

namespace detail {

/// A handler that is called once: with the lease, or because the get was cancelled before.
template <class Handler>
class AsyncGet {
 public:
  static void start(SwapEngine& engine, TensorId tensor, Access access, Handler handler) {
    const auto allocator = boost::asio::get_associated_allocator(handler);
    auto slot = boost::asio::get_associated_cancellation_slot(handler);
    const auto waiting = std::allocate_shared<AsyncGet>(allocator, std::move(handler));
    if (slot.is_connected()) {
      slot.assign([waiting](boost::asio::cancellation_type type) {
        if (type != boost::asio::cancellation_type::none) {
          waiting->end([]() -> Result<Lease> {
            return system_error(ECANCELED, "the get of a tensor was given up");
          });
        }
      });
    }
    engine.get(tensor, access).then([waiting](const Ticket& ticket) {
      waiting->end([&ticket] { return ticket.lease(); });
    });
  }

  explicit AsyncGet(Handler handler) : pending_(std::in_place, std::move(handler)) {}

 private:
  struct Pending {
    explicit Pending(Handler to_call)
        : handler(std::move(to_call)), work(boost::asio::make_work_guard(handler)) {}

    Handler handler;
    // Keeps the handler's io_context running until the handler was called.
    decltype(boost::asio::make_work_guard(std::declval<Handler&>())) work;
  };

  // The first call decides the result; the second does not even take its lease.
  template <class MakeResult>
  void end(MakeResult make_result) {
    std::unique_lock lock(mutex_);
    if (!pending_) {
      return;
    }
    Pending pending = std::move(*pending_);
    pending_.reset();
    lock.unlock();
    const auto executor = pending.work.get_executor();
    const auto allocator = boost::asio::get_associated_allocator(pending.handler);
    boost::asio::post(
        executor, boost::asio::bind_allocator(
                      allocator, [pending = std::move(pending), result = make_result()]() mutable {
                        std::move(pending.handler)(std::move(result));
                      }));
  }

  std::mutex mutex_;
  std::optional<Pending> pending_;  // guarded by mutex_; empty once the handler is posted
};

}  // namespace detail

/// SwapEngine::get for programs that live on Boost.Asio: `token` is a callback,
/// boost::asio::use_future, use_awaitable…, the result the lease or why there is none. The fetch
/// begins within this call, so that the engine sees gets in their order; as get() it may wait for a
/// slot that is coming back. The end is posted to the handler's associated executor; a handler that
/// has none runs on a thread of Asio's system_context, never on the engine's. A signal at its
/// cancellation slot, from any thread, ends it with ECANCELED at once; what was begun to be fetched
/// then stays with the engine, as after a prefetch.
template <boost::asio::completion_token_for<AsyncGetSignature> Token>
auto async_get(SwapEngine& engine, TensorId tensor, Access access, Token&& token) {
  return boost::asio::async_initiate<Token, AsyncGetSignature>(
      [](auto handler, SwapEngine* from, TensorId which, Access how) {
        detail::AsyncGet<decltype(handler)>::start(*from, which, how, std::move(handler));
      },
      token, &engine, tensor, access);
}

/// For reading.
template <boost::asio::completion_token_for<AsyncGetSignature> Token>
auto async_get(SwapEngine& engine, TensorId tensor, Token&& token) {
  return async_get(engine, tensor, Access::kRead, std::forward<Token>(token));
}

}  // namespace penstock
