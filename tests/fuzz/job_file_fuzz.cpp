// seeds: tests/bench/jobs/*.job tests/bench/jobs/broken/*.job
//
// A job file of a benchmark, with up to three files that it may include behind lines of `%%`, and,
// behind
// `%%%`, keys of a command line. Reading ends in jobs or in one sentence; a job is read back from
// what describes it and from its command line. No file of the machine is opened.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/check.h"
#include "bench/job/job_file.h"
#include "tests/fuzz/sentence.h"

namespace penstock::bench {
namespace {

constexpr std::string_view kBreak = "\n%%\n";
constexpr std::string_view kCommand = "\n%%%\n";

/// What stands before `separator`, which is taken away with it; all of it where there is none.
std::string_view take_part(std::string_view& text, std::string_view separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + separator.size());
  return part;
}

void check_jobs(const Result<std::vector<Job>>& jobs) {
  if (jobs.has_error()) {
    expect_sentence(jobs.error());
    return;
  }
  PENSTOCK_CHECK(!jobs->empty(), "{}", "no job and no error");
  std::size_t left = 8;  // enough of them; each is read twice more
  for (const Job& job : *jobs) {
    if (left-- == 0) {
      return;
    }
    const std::string text = describe_job(job);
    const Result<std::vector<Job>> described = parse_jobs(text, "echo.job");
    PENSTOCK_CHECK(described.has_value() && *described == std::vector<Job>{job},
                   "not the same job: {}", text);
    const Result<std::vector<Job>> commanded = load_jobs({}, command_keys(job));
    PENSTOCK_CHECK(commanded.has_value() && *commanded == std::vector<Job>{job},
                   "not the same job: {}", command_line(job));
  }
}

/// Includes `a`, `b` and `c` are the parts; others are not there.
void check_file(std::string_view text) {
  const std::string_view main = take_part(text, kBreak);
  std::array<std::string_view, 3> parts;
  for (std::string_view& part : parts) {
    part = take_part(text, kBreak);
  }
  const TextReader read = [&parts](const std::string& path) -> Result<std::string> {
    if (path.size() != 1 || path[0] < 'a' || path[0] > 'c') {
      return fault(Fault::kConfiguration, "there is no such file");
    }
    return std::string(parts.at(static_cast<std::size_t>(path[0] - 'a')));
  };
  check_jobs(parse_jobs(main, "a.job", read));
}

void check_command(std::string_view text) {
  std::vector<std::string> keys;
  while (!text.empty()) {
    keys.emplace_back(take_part(text, "\n"));
  }
  check_jobs(load_jobs({}, keys));
}

}  // namespace
}  // namespace penstock::bench

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock::bench;
  // The same variables on every machine.
  static const bool cleared = ::clearenv() == 0 && ::setenv("SIZE", "64k", 1) == 0;
  PENSTOCK_CHECK(cleared, "{}", "the environment cannot be set");
  std::string_view text(reinterpret_cast<const char*>(data), bytes);
  check_file(take_part(text, kCommand));
  check_command(text);
  return 0;
}
