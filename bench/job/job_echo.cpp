#include "bench/job/job_echo.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "bench/job/job_key.h"

namespace penstock::bench {
namespace {

bool needs_no_quotes(char letter) {
  constexpr std::string_view kPlain = "_-+=:,./@%";
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
         kPlain.find(letter) != std::string_view::npos;
}

std::string quoted(const std::string& word) {
  if (std::ranges::all_of(word, needs_no_quotes)) {
    return word;
  }
  std::string text = "'";
  for (const char letter : word) {
    text += letter == '\'' ? "'\\''" : std::string(1, letter);
  }
  return text + "'";
}

}  // namespace

std::string describe_job(const Job& job) {
  std::string text = fmt::format("[{}]\n", job.name);
  for (const JobKey& key : job_keys()) {
    if (!key.workloads.contains(job.workload) || key.name == "name") {
      continue;
    }
    const std::optional<std::string> value = key.write(job);
    text += value ? fmt::format("{}={}\n", key.name, *value)
                  : fmt::format("; {} is not given: {}\n", key.name, key.fallback);
  }
  return text;
}

std::vector<std::string> command_keys(const Job& job) {
  const Job untold;
  std::vector<std::string> keys;
  for (const JobKey& key : job_keys()) {
    if (!key.workloads.contains(job.workload)) {
      continue;
    }
    const std::optional<std::string> value = key.write(job);
    if (value && value != key.write(untold)) {
      keys.push_back(fmt::format("--{}={}", key.name, *value));
    }
  }
  return keys;
}

std::string command_line(const Job& job) {
  std::string text = "penstock bench";
  for (const std::string& key : command_keys(job)) {
    text += " " + quoted(key);
  }
  return text;
}

}  // namespace penstock::bench
