// seeds: bench/jobs/*.job
//
// A job file of a benchmark and, behind `%%%`, keys of a command line. Reading ends in jobs or in
// one sentence. No file of the machine is opened.

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
  check_jobs(parse_jobs(take_part(text, kCommand), "a.job"));
  check_command(text);
  return 0;
}
