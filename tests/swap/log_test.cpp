#include "swap/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <regex>
#include <set>
#include <thread>

#include "swap/log_writer.h"
#include "swap/rank.h"
#include "tests/alloc/sanitizers.h"
#include "tests/faults/child.h"
#include "tests/swap/log_fixture.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;
using testing::SizeIs;
using testing::StartsWith;

class LogTest : public LogFixture {
 protected:
  /// The exit status of a child made by fork().
  template <class Body>
  static int in_fork(Body body) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      body();
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
};

TEST_F(LogTest, ALineHasTimeLevelRankProcessEventTensorAndReason) {
  set("RANK", "7");
  log_to(path());
  log_decision(LogEvent::kEvict, "layers.0.weight", [] { return std::string("12.0 MiB: why"); });
  log_info(LogEvent::kNote, [] { return std::string("how"); });
  const std::vector<std::string> found = lines();
  ASSERT_THAT(found, SizeIs(2));
  const std::string begin = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z )";
  EXPECT_TRUE(std::regex_match(
      found[0], std::regex(begin + fmt::format("debug rank=7 pid={} evict tensor='layers\\.0\\."
                                               "weight' 12\\.0 MiB: why",
                                               ::getpid()))))
      << found[0];
  EXPECT_TRUE(std::regex_match(
      found[1], std::regex(begin + fmt::format("info rank=7 pid={} note how", ::getpid()))))
      << found[1];
}

TEST_F(LogTest, ALineIsOneLine) {
  log_to(path());
  log_decision(LogEvent::kPlace, "a\nb", [] { return std::string("c\r\nd\x7f"); });
  EXPECT_THAT(lines(), ElementsAre(EndsWith("place tensor='a b' c  d ")));
}

TEST_F(LogTest, TheFileIsOfARankAndAProcess) {
  set("SLURM_PROCID", "3");
  log_to(path("log.%r.%p"));
  log_info(LogEvent::kNote, [] { return std::string("x"); });
  EXPECT_THAT(lines(fmt::format("log.3.{}", ::getpid())), ElementsAre(HasSubstr(" rank=3 ")));
}

TEST_F(LogTest, TheRankIsWhatTheLauncherSays) {
  EXPECT_EQ(process_rank(), "0");
  set("LOCAL_RANK", "5");
  EXPECT_EQ(process_rank(), "5");
  for (const char* const name : {"SLURM_PROCID", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "RANK"}) {
    set(name, "../x%v");
    EXPECT_EQ(process_rank(), "5") << name << " is no number";
  }
  set("SLURM_PROCID", "1");
  set("PMI_RANK", "2");
  EXPECT_EQ(process_rank(), "2");
  set("OMPI_COMM_WORLD_RANK", "3");
  EXPECT_EQ(process_rank(), "3");
  set("RANK", "4");
  EXPECT_EQ(process_rank(), "4");
  EXPECT_EQ(process_path("a%r.%r"), "a4.4");
}

TEST_F(LogTest, OnlyWhatTheLevelAllowsIsWritten) {
  log_to(path(), "info");
  log_decision(LogEvent::kEvict, "t", [] { return std::string("debug"); });
  log_info(LogEvent::kNote, [] { return std::string("info"); });
  log_warning({WarningCode::kOverflow, "a warning"});
  EXPECT_THAT(lines(), ElementsAre(EndsWith(" note info"), EndsWith(" [overflow] a warning")));
  log_to(path("off"), "off");
  log_warning({WarningCode::kOverflow, "a warning"});
  EXPECT_THAT(lines("off"), IsEmpty());
  log_to(path("unknown"), "verbose");
  EXPECT_TRUE(log_enabled(LogLevel::kWarning)) << "the default";
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  log_to(path("capitals"), "DEBUG");
  EXPECT_TRUE(log_enabled(LogLevel::kDebug));
}

TEST_F(LogTest, APipeWithoutAReaderIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), S_IRUSR | S_IWUSR), 0);
  testing::internal::CaptureStderr();
  log_to(path("pipe"));
  flush_log();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("[log-file]"));
}

TEST_F(LogTest, AFileThatCannotBeWrittenIsAWarningOnStderr) {
  testing::internal::CaptureStderr();
  log_to(path("nowhere/log"));
  flush_log();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("[log-file] the log goes to stderr: "), HasSubstr("No such file")));
}

TEST_F(LogTest, WithoutALogWarningsAreForATerminal) {
  read_log_settings();
  EXPECT_FALSE(log_is_asked_for());
  testing::internal::CaptureStderr();
  log_warning({WarningCode::kKeptInRam, "a drive is full"});
  flush_log();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "penstock: warning: [kept-in-ram] a drive is full\n");
}

TEST_F(LogTest, WhatTheFileDoesNotTakeIsDroppedAndCounted) {
  constexpr std::uint64_t kLines = 40'000;
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  log_to(fmt::format("/proc/self/fd/{}", ends[1]));
  const std::string text(100, 'x');
  for (std::uint64_t i = 0; i < kLines; ++i) {  // nothing reads: it returns all the same
    log_info(LogEvent::kNote, [&text] { return text; });
  }
  std::uint64_t written = 0;
  std::string last;
  std::thread reader([&] {
    FILE* const from = ::fdopen(ends[0], "r");
    std::array<char, 1024> line{};
    while (last.empty() &&
           std::fgets(line.data(), static_cast<int>(line.size()), from) != nullptr) {
      const std::string text_read = line.data();
      written += text_read.find(" note x") != std::string::npos ? 1U : 0U;
      last = text_read.find("[log-lines]") != std::string::npos ? text_read : "";
    }
    std::fclose(from);
  });
  ::unsetenv("PENSTOCK_LOG_FILE");
  read_log_settings();  // the log goes elsewhere, and the old one ends
  reader.join();
  ::close(ends[1]);
  std::smatch found;
  ASSERT_TRUE(std::regex_search(last, found, std::regex(R"(\[log-lines\] (\d+) lines)"))) << last;
  EXPECT_EQ(written + std::stoull(found[1]), kLines);
  EXPECT_GT(written, 0U);
}

TEST_F(LogTest, AFullDriveIsSaidOnStderr) {
  testing::internal::CaptureStderr();
  log_to("/dev/full");
  log_info(LogEvent::kNote, [] { return std::string("a line"); });
  ::unsetenv("PENSTOCK_LOG_FILE");
  read_log_settings();  // the log goes elsewhere, and the old one ends
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("[log-lines] 1 lines of the log are missing"), HasSubstr("/dev/full"),
                    HasSubstr("No space left on device")));
}

TEST_F(LogTest, ManyThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kLines = 1000;
  log_to(path());
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([thread] {
      for (int line = 0; line < kLines; ++line) {
        log_decision(LogEvent::kPlace, "t", [&] { return fmt::format("{}.{}", thread, line); });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::vector<std::string> found = lines_of(LogEvent::kPlace, "t");
  EXPECT_EQ(std::set(found.begin(), found.end()).size(), std::size_t{kThreads} * kLines);
}

TEST_F(LogTest, AForkedChildHasALogOfItsOwn) {
  if (kThreadSanitized) {
    GTEST_SKIP() << "the thread sanitizer ends a forked child that begins a thread";
  }
  log_to(path());
  log_info(LogEvent::kNote, [] { return std::string("parent"); });
  flush_log();
  EXPECT_EQ(in_fork([] {
              log_info(LogEvent::kNote, [] { return std::string("child"); });
              flush_log();
            }),
            0);
  log_info(LogEvent::kNote, [] { return std::string("parent again"); });
  const std::vector<std::string> found = lines();
  ASSERT_THAT(found, SizeIs(3)) << "nothing twice";
  const std::string ours = fmt::format(" pid={} ", ::getpid());
  EXPECT_THAT(found[0], AllOf(HasSubstr(ours), EndsWith("parent")));
  EXPECT_THAT(found[1], AllOf(Not(HasSubstr(ours)), EndsWith("child")));
  EXPECT_THAT(found[2], AllOf(HasSubstr(ours), EndsWith("parent again")));
}

/// How many of 20 children end with status 0, by exit(), as Python's children of os.fork() may.
int children_that_end(const std::string& file) {
  ::setenv("PENSTOCK_LOG_FILE", file.c_str(), 1);
  ::setenv("PENSTOCK_LOG_LEVEL", "debug", 1);
  read_log_settings();
  std::atomic<bool> is_over{false};
  // In a child, which lacks the thread, the leak checker would miss what only its stack names.
  std::thread busy = without_leak_checks([&] {
    return std::thread([&is_over] {
      while (!is_over) {
        log_info(LogEvent::kNote, [] { return std::string("busy"); });
      }
    });
  });
  int ended = 0;
  for (int number = 0; number < 20; ++number) {
    const ::pid_t child = ::fork();
    if (child == 0) {
      if (number % 2 == 0) {
        log_info(LogEvent::kNote, [] { return std::string("child"); });
      }
      std::exit(0);
    }
    int status = -1;
    ended += ::waitpid(child, &status, 0) == child && status == 0 ? 1 : 0;
  }
  is_over = true;
  busy.join();
  return ended;
}

TEST_F(LogTest, AForkedChildEndsWhileItsParentLogs) {
  if (kThreadSanitized) {
    GTEST_SKIP() << "the thread sanitizer ends a forked child that begins a thread";
  }
  // In a process without what other tests leave behind: Asio's threads cannot end in a child.
  PENSTOCK_EXPECT_IN_CHILD(std::to_string(children_that_end(path())), "20");
}

TEST_F(LogTest, EveryWarningHasACodeOfItsOwn) {
  std::set<std::string_view> names;
  for (const WarningCode code : warning_codes()) {
    EXPECT_THAT(std::string(warning_code_name(code)), MatchesRegex("[a-z]+(-[a-z]+)*"));
    names.insert(warning_code_name(code));
  }
  EXPECT_EQ(names.size(), warning_codes().size());
  EXPECT_EQ(names.size(), static_cast<std::size_t>(WarningCode::kBeyondMemory) + 1);
}

}  // namespace
}  // namespace penstock
