#include "bench/job/ini_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/excerpt.h"

namespace penstock::bench {
namespace {

constexpr std::size_t kValueMax = 64 * kKiB;  // the environment may be large, a path is not

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
}

std::string_view without_comment(std::string_view line) {
  for (std::size_t at = 0; at < line.size(); ++at) {
    if ((line[at] == ';' || line[at] == '#') &&
        (at == 0 || kBlanks.find(line[at - 1]) != kBlanks.npos)) {
      return line.substr(0, at);
    }
  }
  return line;
}

Error bad_text(std::string what) {
  return fault(Fault::kConfiguration, std::move(what));
}

/// Each `${VARIABLE}` replaced.
Result<std::string> expanded(std::string_view value) {
  std::string text;
  while (true) {
    const std::size_t begin = value.find("${");
    text += value.substr(0, begin);
    if (begin == std::string_view::npos) {
      break;
    }
    const std::size_t end = value.find('}', begin);
    if (end == std::string_view::npos) {
      return bad_text("has a ${ without its }");
    }
    const std::string name(value.substr(begin + 2, end - begin - 2));
    const char* found = name.empty() ? nullptr : std::getenv(name.c_str());
    if (found == nullptr) {
      return bad_text(
          fmt::format("names the environment's variable \"{}\", which is not set", excerpt(name)));
    }
    text += found;
    value.remove_prefix(end + 1);
  }
  text = trimmed(text);
  if (text.size() > kValueMax) {
    return bad_text(fmt::format("has {} bytes; {} are allowed", text.size(), kValueMax));
  }
  if (std::ranges::any_of(text, [](unsigned char c) { return std::iscntrl(c) != 0; })) {
    return bad_text("holds a control character");
  }
  return text;
}

Result<std::string> section_name(std::string_view line) {
  const std::string_view name =
      line.back() == ']' ? trimmed(line.substr(1, line.size() - 2)) : std::string_view();
  if (name.empty()) {
    return bad_text(fmt::format("\"{}\" is no section; one is written [name]", excerpt(line)));
  }
  Result<std::string> text = expanded(name);
  if (text.has_error()) {
    return bad_text("the section's name " + text.error().message);
  }
  return text->empty() ? Result<std::string>(bad_text("the section's name is empty")) : text;
}

Result<void> parse_line(std::string_view line, const TextPlace& place,
                        std::vector<IniSection>& sections) {
  if (line.empty()) {
    return {};
  }
  if (line.front() == '[') {
    Result<std::string> name = section_name(line);
    PENSTOCK_TRY(name);
    sections.push_back({std::move(*name), place, {}});
    return {};
  }
  if (sections.empty()) {
    return bad_text(
        fmt::format("\"{}\" stands before the first section, such as [global]", excerpt(line)));
  }
  Result<Assignment> assignment = parse_assignment(line, place);
  PENSTOCK_TRY(assignment);
  sections.back().assignments.push_back(std::move(*assignment));
  return {};
}

}  // namespace

std::string TextPlace::text() const {
  return file.empty() ? std::string() : fmt::format(" in {}, line {}", excerpt(file), line);
}

Result<Assignment> parse_assignment(std::string_view text, const TextPlace& place) {
  const std::size_t equals = text.find('=');
  const std::string_view key = trimmed(text.substr(0, equals));
  if (key.empty()) {
    return bad_text(fmt::format("\"{}\" has no key before the =", excerpt(text)));
  }
  Assignment assignment{std::string(key), {}, place};
  if (equals != std::string_view::npos) {
    Result<std::string> value = expanded(text.substr(equals + 1));
    if (value.has_error()) {
      return bad_text(fmt::format("{} {}", excerpt(key), value.error().message));
    }
    assignment.value = std::move(*value);
  }
  return assignment;
}

Result<std::vector<IniSection>> parse_ini(std::string_view text, const std::string& origin) {
  std::vector<IniSection> sections;
  TextPlace place{origin, 0};
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    ++place.line;
    const Result<void> parsed =
        parse_line(trimmed(without_comment(text.substr(0, end))), place, sections);
    if (parsed.has_error()) {
      Error error = bad_text(
          fmt::format("{}, line {}: {}", excerpt(origin), place.line, parsed.error().message));
      error.path = origin;
      return error;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return sections;
}

}  // namespace penstock::bench
