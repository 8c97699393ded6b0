#include "bench/job/value_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace penstock::bench {
namespace {

constexpr std::size_t kPercentilesMax = 20;  // fio's too

void keep(std::vector<std::string>& names, std::string& name) {
  if (!name.empty()) {
    names.push_back(std::exchange(name, {}));
  }
}

/// std::from_chars of GCC 12 reads doubles without regard to the locale, as we want it.
bool read_percentile(std::string_view text, double& percentile) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percentile);
  return error == std::errc() && end == text.data() + text.size() && percentile >= 0 &&
         percentile <= 100;
}

}  // namespace

Refusal read_filenames(std::string_view text, Job& job) {
  std::vector<std::string> names;
  std::string name;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, 2) == "\\:") {
      name += ':';
      ++at;
    } else if (text[at] == ':') {
      keep(names, name);
    } else {
      name += text[at];
    }
  }
  keep(names, name);
  if (names.empty()) {
    return "at least one file is needed; several are written a:b";
  }
  job.filenames = std::move(names);
  return {};
}

std::optional<std::string> write_filenames(const Job& job) {
  std::string text;
  for (const std::string& name : job.filenames) {
    text += text.empty() ? "" : ":";
    for (const char letter : name) {
      text += letter == ':' ? "\\:" : std::string(1, letter);
    }
  }
  return text.empty() ? std::nullopt : std::optional(text);
}

Refusal read_percentiles(std::string_view text, Job& job) {
  std::vector<double> percentiles;
  while (!text.empty()) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    if (!read_percentile(text.substr(0, colon), percentiles.emplace_back())) {
      percentiles.clear();
      break;
    }
    text.remove_prefix(std::min(colon + 1, text.size()));
  }
  if (percentiles.empty() || percentiles.size() > kPercentilesMax) {
    return "1 to 20 numbers from 0 to 100 are allowed, with colons between them, such as 99.0:99.9";
  }
  std::ranges::sort(percentiles);
  job.percentiles = std::move(percentiles);
  return {};
}

std::optional<std::string> write_percentiles(const Job& job) {
  if (job.percentiles.empty()) {
    return {};
  }
  return fmt::format("{}", fmt::join(job.percentiles, ":"));
}

}  // namespace penstock::bench
