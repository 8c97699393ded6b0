#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace penstock::bench::test {

/// What fio took of one key in a job: its text (the environment put in), and the numbers that it
/// made of it. A list has several texts, each the rest of the one before.
struct FioKey {
  std::optional<std::string> text;
  std::vector<double> numbers;
};

/// One job as `fio --debug=parse` shows it, with what it has from [global].
struct FioJob {
  std::string name;
  std::map<std::string, FioKey> keys;
};

/// Reads that output.
std::vector<FioJob> read_fio_parse_log(const std::string& output);

/// What a shell command prints on both channels; nothing where it cannot be run.
std::optional<std::string> output_of(const std::string& command);

}  // namespace penstock::bench::test
