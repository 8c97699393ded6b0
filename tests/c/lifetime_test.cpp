// Who may do what from which thread, and what outlives what.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "tests/c/c_fixture.h"

namespace penstock {
namespace {

class CLifetime : public CFixture {};

TEST_F(CLifetime, AnyThreadMayRelease) {
  put("a", 1);
  penstock_lease* const lease = get("a");
  std::thread([lease] { EXPECT_EQ(penstock_release(lease), PENSTOCK_OK); }).join();
  expect_error(penstock_release(lease), PENSTOCK_ERROR_CLOSED, "released");
}

TEST_F(CLifetime, OfManyThatReleaseOneLeaseOneDoes) {
  put("a", 1);
  for (int round = 0; round < 50; ++round) {
    penstock_lease* const lease = get("a");
    std::atomic<int> released{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
      threads.emplace_back([&] {
        const int status = penstock_release(lease);
        released += status == PENSTOCK_OK ? 1 : 0;
        EXPECT_TRUE(status == PENSTOCK_OK || status == PENSTOCK_ERROR_CLOSED) << status;
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(released, 1);
  }
}

TEST_F(CLifetime, EachThreadHasItsOwnLastError) {
  expect_error(penstock_forget(engine_, "mine"), PENSTOCK_ERROR_UNKNOWN_TENSOR, "'mine'");
  std::thread([this] {
    EXPECT_STREQ(penstock_last_error(), "");
    EXPECT_EQ(penstock_last_errno(), 0);
    expect_error(penstock_forget(engine_, "yours"), PENSTOCK_ERROR_UNKNOWN_TENSOR, "'yours'");
  }).join();
  EXPECT_THAT(penstock_last_error(), testing::HasSubstr("'mine'"));
  put("a", 1);
  EXPECT_THAT(penstock_last_error(), testing::HasSubstr("'mine'")) << "success says nothing";
}

TEST_F(CLifetime, TicketsOutliveTheirEngine) {
  put("a", 1);
  penstock_ticket* reading = nullptr;
  ASSERT_EQ(penstock_get_async(engine_, "a", PENSTOCK_READ, &reading), PENSTOCK_OK);
  ASSERT_EQ(penstock_close(engine_), PENSTOCK_OK);
  engine_ = nullptr;
  EXPECT_EQ(penstock_ticket_wait(reading, 0), PENSTOCK_OK) << "close waited for it";
  penstock_lease* lease = nullptr;
  ASSERT_EQ(penstock_ticket_lease(reading, &lease), PENSTOCK_OK) << penstock_last_error();
  EXPECT_EQ(memory(lease)[kBytes - 1], 1);
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_drop(reading), PENSTOCK_OK);
}

TEST_F(CLifetime, DroppedTicketsStillWrite) {
  ASSERT_EQ(declare("a"), PENSTOCK_OK);
  const std::vector<unsigned char> data(kBytes, 4);
  penstock_ticket* writing = nullptr;
  ASSERT_EQ(penstock_put_async(engine_, "a", data.data(), kBytes, &writing), PENSTOCK_OK);
  EXPECT_EQ(penstock_ticket_drop(writing), PENSTOCK_OK);
  EXPECT_EQ(penstock_flush(engine_), PENSTOCK_OK);
  penstock_lease* const lease = get("a");
  EXPECT_EQ(memory(lease)[0], 4);
  EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
}

// Threads put, get and release while the engine goes: each call is done or says that it is closed.
TEST_F(CLifetime, EnginesCloseUnderTheirUsers) {
  for (int round = 0; round < 10; ++round) {
    for (const char* name : {"0", "1", "2"}) {
      put(name, 1);
    }
    penstock_engine* const engine = engine_;
    std::atomic<int> begun{0};
    std::vector<std::thread> threads;
    for (const char* name : {"0", "1", "2"}) {
      threads.emplace_back([&begun, engine, name] {
        const std::vector<unsigned char> data(kBytes, 6);
        int status = PENSTOCK_OK;
        for (int count = 0; status == PENSTOCK_OK; ++count) {
          begun += count == 1 ? 1 : 0;
          penstock_lease* lease = nullptr;
          status = penstock_put(engine, name, data.data(), kBytes);
          status =
              status == PENSTOCK_OK ? penstock_get(engine, name, PENSTOCK_READ, &lease) : status;
          penstock_engine_stats stats{};
          stats.struct_size = sizeof stats;
          status = status == PENSTOCK_OK ? penstock_stats(engine, &stats) : status;
          if (lease != nullptr) {
            EXPECT_EQ(memory(lease)[kBytes - 1], 6);
            EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
          }
        }
        EXPECT_TRUE(status == PENSTOCK_ERROR_CLOSED || status == PENSTOCK_ERROR_UNKNOWN_TENSOR)
            << penstock_last_error();
      });
    }
    while (begun < 3) {
      std::this_thread::yield();
    }
    EXPECT_EQ(penstock_close(engine), PENSTOCK_OK) << penstock_last_error();
    for (std::thread& thread : threads) {
      thread.join();
    }
    engine_ = open(directory_.path());
  }
}

TEST_F(CLifetime, AForkedChildFindsTheEngineClosed) {
  put("a", 1);
  penstock_lease* const held = get("a");
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::vector<unsigned char> data(kBytes);
    void* memory = nullptr;
    std::size_t bytes = 0;
    penstock_lease* lease = nullptr;
    const int expected = PENSTOCK_ERROR_CLOSED;
    const bool right = penstock_put(engine_, "a", data.data(), kBytes) == expected &&
                       penstock_get_into(engine_, "a", data.data(), kBytes) == expected &&
                       penstock_get(engine_, "a", PENSTOCK_READ, &lease) == expected &&
                       penstock_allocate(engine_, "a", &lease) == expected &&
                       penstock_lease_memory(held, &memory, &bytes) == expected &&
                       penstock_forget(engine_, "a") == expected;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(penstock_release(held), PENSTOCK_OK);
}

TEST_F(CLifetime, AForkedChildMayOpenAnEngineWhateverOtherThreadsDo) {
  put("a", 1);
  std::atomic<bool> ends{false};
  std::thread asking([&] {
    penstock_tensor_state state{};
    state.struct_size = sizeof state;
    while (!ends) {
      (void)penstock_state(engine_, "a", &state);
    }
  });
  for (int child_number = 0; child_number < 20; ++child_number) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      ::alarm(30);  // a lock that no thread has any more would be waited for here
      penstock_tensor_state state{};
      state.struct_size = sizeof state;
      ::_exit(penstock_state(engine_, "a", &state) == PENSTOCK_ERROR_CLOSED ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ends = true;
  asking.join();
}

TEST_F(CLifetime, NoEngineIsClosedByItsOwnWarning) {
  struct Context {
    std::atomic<penstock_engine*> engine{nullptr};
    std::atomic<int> status{PENSTOCK_OK};
  } context;
  const std::string path = directory_.path();
  const char* const paths[] = {path.c_str()};
  penstock_engine_options options{};
  options.struct_size = sizeof options;
  options.config_json =
      R"({"penstock": {"ram_bytes": "64MiB", "tensors": [{"match": "*", "place": "class"}]}})";
  options.paths = paths;
  options.path_count = 1;
  options.warn = [](void* given, const char*) {
    auto* const known = static_cast<Context*>(given);
    known->status = penstock_close(known->engine);
    throw std::runtime_error("a callback must not throw, and this one does");
  };
  options.warn_context = &context;
  ASSERT_EQ(penstock_close(engine_), PENSTOCK_OK);
  ASSERT_EQ(penstock_open(&options, &engine_), PENSTOCK_OK) << penstock_last_error();
  context.engine = engine_;
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const ::rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  put("a", 1);  // no drive takes it: a warning, and RAM keeps it
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(context.status, PENSTOCK_ERROR_ARGUMENT);
}

TEST_F(CLifetime, WarningsGoWhereTheyWereAskedFor) {
  // Buffers that the pinned budget cannot hold are said once, at the end.
  std::vector<std::string> warnings;
  const std::string path = directory_.path();
  const char* const paths[] = {path.c_str()};
  penstock_engine_options options{};
  options.struct_size = sizeof options;
  options.config_json = R"({"penstock": {"max_pinned_bytes": "4MiB", "ram_bytes": 0}})";
  options.paths = paths;
  options.path_count = 1;
  options.warn = [](void* context, const char* sentence) {
    static_cast<std::vector<std::string>*>(context)->emplace_back(sentence);
  };
  options.warn_context = &warnings;
  ASSERT_EQ(penstock_close(engine_), PENSTOCK_OK);
  ASSERT_EQ(penstock_open(&options, &engine_), PENSTOCK_OK) << penstock_last_error();
  const std::vector<const char*> names = {"a", "b", "c", "d", "e", "f"};
  std::vector<penstock_lease*> held;
  for (const char* name : names) {
    put(name, 1);
  }
  for (const char* name : names) {
    held.push_back(get(name));
  }
  for (penstock_lease* lease : held) {
    EXPECT_EQ(penstock_release(lease), PENSTOCK_OK);
  }
  EXPECT_TRUE(warnings.empty());
  ASSERT_EQ(penstock_close(engine_), PENSTOCK_OK);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_THAT(warnings[0], testing::HasSubstr("\"max_pinned_bytes\": \""));
  engine_ = open(directory_.path());
}

}  // namespace
}  // namespace penstock
