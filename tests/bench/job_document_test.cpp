// docs/BENCH.md lists every key as the table of keys has it: what is written there is this text.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "bench/job/job_key.h"

#include <fmt/format.h>

namespace penstock::bench {
namespace {

std::string workloads_of(const JobKey& key) {
  const std::string names = workload_names(key.workloads);
  return names == "raw, swap, update, replay" ? "all" : names;
}

std::string key_table() {
  std::string table = "| key | means | without it | workloads |\n| --- | --- | --- | --- |\n";
  for (const JobKey& key : job_keys()) {
    std::string names = fmt::format("`{}`", key.name);
    if (!key.alias.empty()) {
      names += fmt::format(", `{}`", key.alias);
    }
    table +=
        fmt::format("| {} | {} | {} | {} |\n", names, key.help, key.fallback, workloads_of(key));
  }
  return table;
}

TEST(JobDocumentTest, ListsEveryKeyAsItIs) {
  std::ostringstream text;
  text << std::ifstream(PENSTOCK_DOCUMENT).rdbuf();
  ASSERT_FALSE(text.str().empty()) << PENSTOCK_DOCUMENT;
  const std::string table = key_table();
  EXPECT_NE(text.str().find("\n" + table), std::string::npos)
      << "the table in docs/BENCH.md must be\n"
      << table;
}

}  // namespace
}  // namespace penstock::bench
