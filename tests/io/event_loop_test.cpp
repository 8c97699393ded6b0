#include "io/event_loop.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <future>
#include <string>
#include <vector>

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

cpu_set_t cores_of(EventLoop& loop) {
  std::promise<cpu_set_t> cores;
  boost::asio::post(loop.context(), [&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::pthread_getaffinity_np(::pthread_self(), sizeof set, &set);
    cores.set_value(set);
  });
  return cores.get_future().get();
}

TEST(EventLoop, RunsOnTheCoresGivenAsFarAsItMay) {
  EventLoop loop("loop");
  const cpu_set_t before = cores_of(loop);
  std::uint32_t first = 0;
  while (!CPU_ISSET(first, &before)) {
    ++first;
  }
  const std::vector<std::uint32_t> none = {CPU_SETSIZE - 1, CPU_SETSIZE + 5};
  if (!CPU_ISSET(CPU_SETSIZE - 1, &before)) {
    ASSERT_TRUE(loop.run_on(none).has_value());
    const cpu_set_t unchanged = cores_of(loop);
    EXPECT_TRUE(CPU_EQUAL(&unchanged, &before)) << "no core in common";
  }
  ASSERT_TRUE(loop.run_on({}).has_value());
  ASSERT_TRUE(loop.run_on(std::vector{first, std::uint32_t{CPU_SETSIZE} + 5}).has_value());
  const cpu_set_t after = cores_of(loop);
  EXPECT_EQ(CPU_COUNT(&after), 1);
  EXPECT_TRUE(CPU_ISSET(first, &after));
  cpu_set_t mine;
  ::pthread_getaffinity_np(::pthread_self(), sizeof mine, &mine);
  EXPECT_TRUE(CPU_EQUAL(&mine, &before)) << "this thread stays where it was";
  loop.stop();
  EXPECT_TRUE(loop.run_on(std::vector{first}).has_value()) << "there is no thread to move";
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
