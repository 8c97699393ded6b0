#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "tests/alloc/sanitizers.h"
#include "tests/io/temp_directory.h"
#include "tests/swap/durable_rounds.h"

extern char** environ;

namespace penstock {
namespace {

/// The writer in a process of its own, killed after `microseconds`. Returns the last round that it
/// had said to be safe, 0 if none.
std::uint32_t run_and_kill(const std::string& directory, std::chrono::microseconds life) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  ::posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  std::string program = PENSTOCK_DURABLE_WRITER;
  std::string argument = directory;
  std::array<char*, 3> arguments{program.data(), argument.data(), nullptr};
  ::pid_t child = 0;
  EXPECT_EQ(::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ),
            0);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  std::this_thread::sleep_for(life);
  ::kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer gave up: " << WEXITSTATUS(status);
  std::string said;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; (got = ::read(pipe[0], part.data(), part.size())) > 0;) {
    said.append(part.data(), static_cast<std::size_t>(got));
  }
  ::close(pipe[0]);
  if (said.empty()) {
    return 0;
  }
  const std::size_t line = said.rfind('\n', said.size() - 2);
  return static_cast<std::uint32_t>(
      std::stoul(said.substr(line == std::string::npos ? 0 : line + 1)));
}

constexpr int kKills = static_cast<int>(work(200));

TEST(SwapEngineKill, AtAnyInstantWhatWasFlushedIsThereWhole) {
  TempDirectory directory;
  std::mt19937 random(7);
  std::uint32_t safe = 0;
  std::uint32_t life_max_microseconds = 20'000;
  for (int kill = 0; kill < kKills; ++kill) {
    const std::chrono::microseconds life(random() % life_max_microseconds);
    safe = std::max(safe, run_and_kill(directory.path(), life));
    if (safe == 0) {  // a loaded machine, or a sanitizer, takes longer to come so far
      life_max_microseconds *= 2;
      ASSERT_LT(life_max_microseconds, 600'000'000U) << "no writer ever flushes";
    }
    const auto engine = open_durable_engine();
    const Result<NamespaceId> space =
        engine->open_namespace("rounds", {{directory.path(), {}, {}}});
    ASSERT_TRUE(space.has_value()) << space.error().message;
    // A flush is one batch: all of a round, or nothing of it.
    std::uint32_t found = 0;
    for (std::uint32_t tensor = 0; tensor < kRoundTensors; ++tensor) {
      const auto id = engine->find(*space, round_tensor_name(tensor));
      const Result<std::uint32_t> round = id ? round_of(*engine, *id, tensor) : 0U;
      ASSERT_TRUE(round) << "kill " << kill << ", tensor " << tensor << ": "
                         << round.error().message;
      found = tensor == 0 ? *round : found;
      ASSERT_EQ(*round, found) << "kill " << kill << ", tensor " << tensor;
    }
    ASSERT_GE(found, safe) << "kill " << kill << " lost what was flushed";
    ASSERT_LE(found, safe + 1) << "kill " << kill << " kept what was never flushed";
    safe = found;
  }
  EXPECT_GT(safe, 0U) << "every writer died before its first flush: this proved nothing";
}

}  // namespace
}  // namespace penstock
