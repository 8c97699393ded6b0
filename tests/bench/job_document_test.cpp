// docs/BENCH.md lists every key as the table of keys has it: what is written there is this text.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "bench/job/job_key.h"

#include <fmt/format.h>

namespace penstock::bench {
namespace {

std::string workloads_of(const JobKey& key) {
  std::string names;
  std::size_t count = 0;
  for (const Workload workload :
       {Workload::kRaw, Workload::kSwap, Workload::kUpdate, Workload::kReplay}) {
    if (key.workloads.contains(workload)) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", workload_name(workload));
      ++count;
    }
  }
  return count == 4 ? "all" : names;
}

std::string key_table() {
  std::string table = "| key | means | without it | workloads |\n| --- | --- | --- | --- |\n";
  for (const JobKey& key : job_keys()) {
    std::string names = fmt::format("`{}`", key.name);
    std::istringstream aliases{std::string(key.aliases)};
    for (std::string alias; aliases >> alias;) {
      names += fmt::format(", `{}`", alias);
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
