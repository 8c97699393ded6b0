#include "bench/workload/scratch_directory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/io/temp_directory.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

TEST(ScratchDirectory, GoesWithAllThatIsInIt) {
  const TempDirectory parent;
  std::string path;
  {
    const auto scratch = ScratchDirectory::make(parent.path(), "trial");
    ASSERT_TRUE(scratch.has_value()) << scratch.error().message;
    path = scratch->path();
    EXPECT_TRUE(fs::path(path).filename().string().starts_with("trial-"));
    fs::create_directory(path + "/below");
    std::ofstream(path + "/below/file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(parent.path()));
}

TEST(ScratchDirectory, NoParentIsTheCurrentDirectory) {
  const auto scratch = ScratchDirectory::make("", "trial");
  ASSERT_TRUE(scratch.has_value()) << scratch.error().message;
  EXPECT_TRUE(fs::path(scratch->path()).is_absolute());
  EXPECT_TRUE(fs::equivalent(fs::path(scratch->path()).parent_path(), fs::current_path()));
}

}  // namespace
}  // namespace penstock::bench
