#include "bench/report/plot_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A program that does what `script` says, where a Python is expected: $3 is --check or missing.
std::string program(const TempDirectory& directory, const std::string& name,
                    const std::string& script) {
  const std::string path = directory / name;
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(PlotProgramTest, TheFirstThatHasMatplotlib) {
  const TempDirectory directory;
  const std::string without = program(directory, "without", "echo 'No module' >&2; exit 1");
  const std::string with = program(directory, "with", "[ \"$3\" = --check ] || cat");
  const Result<std::string> found =
      find_plot_python({directory / "missing", without, with, without});
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_EQ(draw_plot(*found, "{picture}").value(), "{picture}");
}

TEST(PlotProgramTest, OneThatFailsLater) {
  const TempDirectory directory;
  const std::string broken =
      program(directory, "broken", "[ \"$3\" = --check ] && exit 0; echo 'no canvas' >&2; exit 3");
  const Result<std::string> found = find_plot_python({broken});
  ASSERT_TRUE(found.has_value()) << found.error().message;
  // Longer than a pipe, so that it cannot all be said before the child is gone.
  const Result<std::string> drawn = draw_plot(*found, std::string(3'000'000, ' '));
  ASSERT_TRUE(drawn.has_error());
  EXPECT_THAT(drawn.error().message, HasSubstr("no canvas"));
}

}  // namespace
}  // namespace penstock::bench
