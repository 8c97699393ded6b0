#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/job/job_file.h"

namespace penstock::bench::test {

/// A file of tests/bench/jobs.
inline std::string job_path(std::string_view name) {
  return std::string(PENSTOCK_JOBS_DIR) + "/" + std::string(name);
}

/// Included files of a test, instead of a disk's.
inline TextReader files(std::map<std::string, std::string> texts) {
  return [texts = std::move(texts)](const std::string& path) -> Result<std::string> {
    const auto found = texts.find(path);
    if (found == texts.end()) {
      return system_error(ENOENT, "cannot open " + path, path);
    }
    return found->second;
  };
}

/// The jobs of a text called `a.job`.
inline std::vector<Job> jobs_of(std::string_view text, const TextReader& read = files({})) {
  Result<std::vector<Job>> jobs = parse_jobs(text, "a.job", read);
  EXPECT_TRUE(jobs.has_value()) << jobs.error().message << "\n" << text;
  return jobs.has_value() ? *jobs : std::vector<Job>();
}

inline std::string problem(std::string_view text, const TextReader& read = files({})) {
  const Result<std::vector<Job>> jobs = parse_jobs(text, "a.job", read);
  if (jobs.has_value()) {
    return "no error";
  }
  EXPECT_EQ(jobs.error().code == make_error_code(Fault::kConfiguration),
            jobs.error().system_errno() == 0);
  return jobs.error().message;
}

inline std::vector<Job> command_jobs(const std::vector<std::string>& keys,
                                     const std::vector<std::string>& paths = {}) {
  Result<std::vector<Job>> jobs = load_jobs(paths, keys);
  EXPECT_TRUE(jobs.has_value()) << jobs.error().message;
  return jobs.has_value() ? *jobs : std::vector<Job>();
}

inline std::string command_problem(const std::vector<std::string>& keys,
                                   const std::vector<std::string>& paths = {}) {
  const Result<std::vector<Job>> jobs = load_jobs(paths, keys);
  return jobs.has_error() ? jobs.error().message : "no error";
}

}  // namespace penstock::bench::test
