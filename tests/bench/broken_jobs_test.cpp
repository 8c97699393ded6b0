// Job files with one mistake each, in tests/bench/jobs/broken. Their first line says what the error
// must say: "; error: TEXT".

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/bench/job_fixture.h"
#include "tests/fuzz/sentence.h"

namespace penstock::bench {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(BrokenJobsTest, EachSaysWhatIsWrong) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::job_path("broken"))) {
    if (entry.path().extension() != ".job") {
      continue;
    }
    ++count;
    SCOPED_TRACE(entry.path().filename().string());
    const std::string text = text_of(entry.path());
    constexpr std::string_view kMark = "; error: ";
    ASSERT_TRUE(text.starts_with(kMark));
    const std::string expected = text.substr(kMark.size(), text.find('\n') - kMark.size());
    const Result<std::vector<Job>> jobs = load_jobs({entry.path().string()}, {});
    ASSERT_TRUE(jobs.has_error());
    EXPECT_THAT(jobs.error().message, testing::HasSubstr(expected));
    expect_sentence(jobs.error());
    EXPECT_FALSE(jobs.error().path.empty());
  }
  EXPECT_GE(count, 20U);
}

}  // namespace
}  // namespace penstock::bench
