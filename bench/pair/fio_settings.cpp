#include "bench/pair/fio_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace penstock::bench {

std::vector<std::string> FioSettings::arguments() const {
  std::vector<std::string> all{fmt::format("--ioengine={}", engine),
                               fmt::format("--iodepth={}", depth)};
  if (fixed_buffers) {
    all.emplace_back("--fixedbufs=1");
    all.emplace_back("--registerfiles=1");
  }
  return all;
}

std::vector<std::string> FioSettings::environment() const {
  return huge_pages ? std::vector<std::string>{"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}
                    : std::vector<std::string>{};
}

std::string FioSettings::describe() const {
  std::vector<std::string> words = environment();
  words.emplace_back("fio");
  for (const std::string& argument : arguments()) {
    words.push_back(argument);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<FioSettings> fio_candidates(std::uint32_t depth) {
  return {{"io_uring", depth, true, true},
          {"io_uring", depth, true, false},
          {"io_uring", depth, false, true},
          {"libaio", depth, false, true}};
}

}  // namespace penstock::bench
