#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace penstock {

/// A directory of its own for one test, removed with it. Under $PENSTOCK_TMP, else /tmp.
class TempDirectory {
 public:
  TempDirectory() {
    const char* const base = std::getenv("PENSTOCK_TMP");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/penstock-test-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) {
      ADD_FAILURE() << "cannot make a directory as " << path_;
    }
  }
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace penstock
