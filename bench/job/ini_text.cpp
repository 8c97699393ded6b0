#include "bench/job/ini_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"
#include "bindings/inventory/input_file.h"

namespace penstock::bench {
namespace {

constexpr std::uint64_t kFileMax = kMiB;
constexpr std::size_t kOpenFilesMax = 16;
// A few files that include each other twice at each depth would be read 2^16 times.
constexpr std::size_t kIncludesMax = 256;
constexpr std::size_t kValueMax = 64 * kKiB;  // the environment may be large, a path is not
constexpr std::string_view kInclude = "include";

bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\r';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

bool begins_comment(std::string_view text, std::size_t at) {
  return (text[at] == ';' || text[at] == '#') && (at == 0 || is_blank(text[at - 1]));
}

std::string_view without_comment(std::string_view line) {
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (begins_comment(line, at)) {
      return line.substr(0, at);
    }
  }
  return line;
}

bool is_control(char letter) {
  return static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f;
}

Error wrong_value(std::string why) {
  return fault(Fault::kConfiguration, std::move(why));
}

Error wrong(const TextPlace& place, std::string_view what) {
  Error error = fault(Fault::kConfiguration,
                      fmt::format("{}, line {}: {}", excerpt(place.file), place.line, what));
  error.path = place.file;
  return error;
}

/// One text with what it includes.
class IniParser {
 public:
  explicit IniParser(const TextReader& read) : read_(read) {}

  Result<void> parse(std::string_view text, const std::string& file) {
    open_.push_back(std::filesystem::path(file).lexically_normal().string());
    TextPlace place{file, 0, open_.size() > 1};
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      ++place.line;
      PENSTOCK_TRY(parse_line(trimmed(without_comment(text.substr(0, end))), place));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    open_.pop_back();
    return {};
  }

  std::vector<IniSection> take() { return std::move(sections_); }

 private:
  Result<void> parse_line(std::string_view line, const TextPlace& place) {
    if (line.empty()) {
      return {};
    }
    if (line.front() == '[') {
      return begin_section(line, place);
    }
    if (sections_.empty()) {
      return wrong(place, fmt::format("\"{}\" stands before the first section, such as [global]",
                                      excerpt(line)));
    }
    const std::size_t equals = line.find('=');
    const std::string_view key = trimmed(line.substr(0, equals));
    if (key == kInclude || line.starts_with("include ") || line.starts_with("include\t")) {
      const std::size_t after = key == kInclude ? std::min(equals, line.size() - 1) + 1 : 8;
      return include(trimmed(line.substr(std::min(after, line.size()))), place);
    }
    return assign(key, equals, line, place);
  }

  Result<void> begin_section(std::string_view line, const TextPlace& place) {
    if (place.is_included) {
      return wrong(place, "an included file holds keys only, no sections");
    }
    const std::string_view name =
        line.back() == ']' ? trimmed(line.substr(1, line.size() - 2)) : std::string_view();
    if (name.empty()) {
      return wrong(place,
                   fmt::format("\"{}\" is no section; one is written [name]", excerpt(line)));
    }
    Result<std::string> expanded = expanded_value(name);
    if (expanded.has_error()) {
      return wrong(place, fmt::format("the section's name {}", expanded.error().message));
    }
    if (expanded->empty()) {
      return wrong(place, "the section's name is empty");
    }
    sections_.push_back({std::move(*expanded), place, {}});
    return {};
  }

  Result<void> assign(std::string_view key, std::size_t equals, std::string_view line,
                      const TextPlace& place) {
    if (key.empty()) {
      return place.is_included
                 ? hidden_line(place)
                 : wrong(place, fmt::format("\"{}\" has no key before the =", excerpt(line)));
    }
    Assignment assignment{std::string(key), {}, place};
    if (equals != std::string_view::npos) {
      Result<std::string> value = expanded_value(line.substr(equals + 1));
      if (value.has_error()) {
        return place.is_included
                   ? hidden_line(place)
                   : wrong(place, fmt::format("{} {}", excerpt(key), value.error().message));
      }
      assignment.value = std::move(*value);
    }
    sections_.back().assignments.push_back(std::move(assignment));
    return {};
  }

  Result<void> include(std::string_view name, const TextPlace& place) {
    const Result<std::string> expanded = expanded_value(name);
    if (expanded.has_error()) {
      return wrong(place, fmt::format("include {}", expanded.error().message));
    }
    if (expanded->empty()) {
      return wrong(place, "include names no file");
    }
    const std::string path =
        (std::filesystem::path(place.file).parent_path() / *expanded).lexically_normal().string();
    if (std::ranges::find(open_, path) != open_.end()) {
      return wrong(place, fmt::format("{} includes itself", excerpt(path)));
    }
    if (open_.size() >= kOpenFilesMax || ++includes_ > kIncludesMax) {
      return wrong(place, fmt::format("{} is one include too many: at most {} deep and {} in all",
                                      excerpt(path), kOpenFilesMax, kIncludesMax));
    }
    const Result<std::string> text = read_(path);
    if (text.has_error()) {
      Error error = text.error();
      error.message =
          fmt::format("{}, line {}: {}", excerpt(place.file), place.line, error.message);
      return error;
    }
    return parse(*text, path);
  }

  const TextReader& read_;
  std::vector<std::string> open_;  // the files that include each other, outermost first
  std::size_t includes_ = 0;
  std::vector<IniSection> sections_;
};

}  // namespace

std::string TextPlace::text() const {
  return file.empty() ? std::string() : fmt::format(" in {}, line {}", excerpt(file), line);
}

Error hidden_line(const TextPlace& place) {
  return wrong(place, "this line of an included file is no key of a job");
}

Result<std::string> read_job_text(const std::string& path) {
  Result<std::string> text = read_text_file(path, kFileMax);
  if (text.has_error()) {
    Error error = std::move(text).error();
    error.message = excerpt(error.message);
    return error;
  }
  return text;
}

Result<std::vector<IniSection>> parse_ini(std::string_view text, const std::string& origin,
                                          const TextReader& read) {
  IniParser parser(read);
  PENSTOCK_TRY(parser.parse(text, origin));
  return parser.take();
}

Result<std::string> expanded_value(std::string_view value) {
  std::string expanded;
  while (true) {
    const std::size_t begin = value.find("${");
    expanded += value.substr(0, begin);
    if (begin == std::string_view::npos) {
      break;
    }
    const std::size_t end = value.find('}', begin);
    if (end == std::string_view::npos) {
      return wrong_value("has a ${ without its }");
    }
    const std::string name(value.substr(begin + 2, end - begin - 2));
    const char* found = name.empty() ? nullptr : std::getenv(name.c_str());
    if (found == nullptr) {
      return wrong_value(
          fmt::format("names the environment's variable \"{}\", which is not set", excerpt(name)));
    }
    expanded += found;
    value.remove_prefix(end + 1);
  }
  expanded = trimmed(expanded);
  if (expanded.size() > kValueMax) {
    return wrong_value(fmt::format("has {} bytes; {} are allowed", expanded.size(), kValueMax));
  }
  const std::string_view plain = expanded;
  for (std::size_t at = 0; at < plain.size(); ++at) {
    if (is_control(plain[at])) {
      return wrong_value("holds a control character");
    }
    if (at > 0 && begins_comment(plain, at)) {
      return wrong_value("holds a blank before ; or #, which begins a comment");
    }
    if (plain.substr(at, 2) == "${") {
      return wrong_value("holds ${ after the environment was put in");
    }
  }
  return expanded;
}

}  // namespace penstock::bench
