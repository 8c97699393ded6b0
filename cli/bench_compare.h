#pragma once

#include <CLI/CLI.hpp>

namespace penstock::cli {

/// `penstock bench compare A.json B.json`, below the verb `bench`; as the verbs of verb.h.
void add_bench_compare(CLI::App& bench, int& exit_code);

}  // namespace penstock::cli
