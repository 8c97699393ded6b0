#include "tests/faults/fault_row.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

namespace penstock {
namespace {

/// `FullDiskTest.ACommitWithoutAWait`, on whatever engine it runs.
std::string running_test() {
  const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
  const std::string suite = info.test_suite_name();
  const std::string name = info.name();
  return suite.substr(suite.find('/') + 1) + "." + name.substr(0, name.find('/'));
}

}  // namespace

void write_row(const FaultRow& row) {
  const char* const directory = std::getenv("PENSTOCK_FAULT_ROWS");
  if (directory == nullptr || *directory == '\0') {
    return;
  }
  const nlohmann::json document{
      {"fault", row.fault},       {"made_by", row.made_by},     {"through", "C++"},
      {"happened", row.happened}, {"good_copy", row.good_copy}, {"skipped", row.skipped},
      {"test", running_test()},
  };
  const std::string text = document.dump();
  // The same row from several engines is one file; rows that differ are
  // several, and are noticed.
  const std::string name = std::to_string(std::hash<std::string>{}(text)) + ".json";
  std::ofstream file(std::string(directory) + "/" + name);
  file << text << "\n";
  EXPECT_TRUE(file.good()) << "cannot write " << directory << "/" << name;
}

}  // namespace penstock
