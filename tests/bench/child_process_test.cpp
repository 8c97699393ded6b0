#include "bench/process/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace penstock::bench {
namespace {

using testing::HasSubstr;

Command shell(const std::string& script) {
  return {{"sh", "-c", script}, {}, ""};
}

TEST(ChildProcessTest, WhatItSays) {
  ChildProcess child = ChildProcess::start(shell("echo one; echo two")).value();
  EXPECT_EQ(child.finish().value(), "one\ntwo\n");
}

TEST(ChildProcessTest, MoreThanAPipeHolds) {
  ChildProcess child =
      ChildProcess::start(shell("head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2"))
          .value();
  EXPECT_EQ(child.finish().value().size(), 3'000'000U);
}

TEST(ChildProcessTest, AConversation) {
  ChildProcess child =
      ChildProcess::start(shell("while read word; do echo \"heard $word\"; done")).value();
  for (const char* const word : {"one", "two"}) {
    ASSERT_TRUE(child.write(std::string(word) + "\n").has_value());
    EXPECT_EQ(child.read_line().value(), std::string("heard ") + word);
  }
  EXPECT_EQ(child.finish().value(), "");
}

TEST(ChildProcessTest, AnEnvironmentOverOurs) {
  Command command = shell("echo $HOME $NEW");
  command.environment = {"HOME=elsewhere", "NEW=here"};
  EXPECT_EQ(ChildProcess::start(command).value().finish().value(), "elsewhere here\n");
}

TEST(ChildProcessTest, AProgramThatIsNotThere) {
  const auto child = ChildProcess::start({{"penstock-no-such-program"}, {}, "some-package"});
  ASSERT_TRUE(child.has_error());
  EXPECT_EQ(child.error().system_errno(), ENOENT);
  EXPECT_THAT(child.error().message, HasSubstr("penstock-no-such-program is not installed"));
  EXPECT_THAT(child.error().message, HasSubstr("apt-get install some-package"));
}

TEST(ChildProcessTest, AnEndThatIsNone) {
  ChildProcess child =
      ChildProcess::start(shell("echo first >&2; echo the reason >&2; exit 3")).value();
  const auto said = child.finish();
  ASSERT_TRUE(said.has_error());
  EXPECT_EQ(said.error().message, "sh ended with status 3: the reason");
}

TEST(ChildProcessTest, ASignal) {
  ChildProcess child = ChildProcess::start(shell("kill -9 $$")).value();
  const auto said = child.finish();
  ASSERT_TRUE(said.has_error());
  EXPECT_EQ(said.error().message, "sh was ended by signal 9: it did not say why");
}

TEST(ChildProcessTest, NoProcessAnswers) {
  ChildProcess child = ChildProcess::start(shell("echo no ring >&2; exit 1")).value();
  const auto line = child.read_line();
  ASSERT_TRUE(line.has_error());
  EXPECT_EQ(line.error().message, "sh ended with status 1: no ring");
}

TEST(ChildProcessTest, OneThatEndsAtOnceIsKilledByASignalHandler) {
  Command command = shell("exec sleep 1000000");
  command.ends_at_once = true;
  ChildProcess child = ChildProcess::start(command).value();
  kill_child();
  EXPECT_THAT(child.finish().error().message, HasSubstr("ended by signal 9"));
  kill_child();  // there is none
}

// Would wait for ever if it were not killed.
TEST(ChildProcessTest, OneThatIsLetGoIsKilled) {
  const ChildProcess child = ChildProcess::start(shell("exec sleep 1000000")).value();
}

}  // namespace
}  // namespace penstock::bench
