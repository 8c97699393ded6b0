#include "io/event_loop.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <future>
#include <string>

#include "io/event_fd.h"

namespace penstock {
namespace {

TEST(EventLoop, RunsOnItsOwnNamedThreadWithSignalsBlocked) {
  EventLoop loop("a-name-that-is-too-long");
  std::promise<std::string> name;
  boost::asio::post(loop.context(), [&] {
    EXPECT_TRUE(loop.on_loop_thread());
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGINT), 1);
    EXPECT_EQ(sigismember(&mask, SIGXFSZ), 1);
    std::array<char, 16> text{};
    ::pthread_getname_np(::pthread_self(), text.data(), text.size());
    name.set_value(text.data());
  });
  EXPECT_EQ(name.get_future().get(), "a-name-that-is-");
  EXPECT_FALSE(loop.on_loop_thread());
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0) << "this thread keeps its own mask";
}

TEST(EventLoop, StopLetsWhatIsPostedFinish) {
  EventLoop loop("loop");
  std::atomic<int> ran{0};
  for (int index = 0; index < 1000; ++index) {
    boost::asio::post(loop.context(), [&] {
      ++ran;
      boost::asio::post(loop.context(), [&] { ++ran; });
    });
  }
  loop.stop();
  EXPECT_EQ(ran, 2000);
  loop.stop();
  EXPECT_FALSE(loop.on_loop_thread());
}

TEST(EventFd, IsReadableFromNotifyToClear) {
  const auto event = *EventFd::make();
  event->notify();
  event->notify();
  event->wait();
  event->clear();
  event->clear();  // never blocks
  std::thread other([&] { event->notify(); });
  event->wait();
  other.join();
}

}  // namespace
}  // namespace penstock
