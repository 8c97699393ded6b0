#include "cli/text_wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace penstock::cli {
namespace {

constexpr std::size_t kWidthMin = 40;
constexpr std::size_t kWidthDefault = 80;
// Where CLI11 begins the description of an option.
constexpr std::size_t kDescriptionColumn = 30;

std::size_t leading_spaces(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Where the lines go on that follow a line of help.
std::size_t indent_of(std::string_view line) {
  const bool has_description = line.size() > kDescriptionColumn &&
                               line[kDescriptionColumn - 1] == ' ' &&
                               line[kDescriptionColumn] != ' ' && leading_spaces(line) == 2;
  const std::size_t spaces = leading_spaces(line);
  if (has_description || spaces >= kDescriptionColumn) {
    return kDescriptionColumn;
  }
  return spaces == 0 ? 0 : spaces + 2;  // prose, or an example
}

}  // namespace

std::size_t output_width() {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
    return std::max<std::size_t>(window.ws_col, kWidthMin);
  }
  const char* const columns = std::getenv("COLUMNS");
  const std::string_view text = columns == nullptr ? "" : columns;
  std::size_t width = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
  return error == std::errc() && end == text.data() + text.size() ? std::max(width, kWidthMin)
                                                                  : kWidthDefault;
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string lines;
  std::string line(text.substr(0, leading_spaces(text)));
  bool is_empty = true;  // of words
  text.remove_prefix(line.size());
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    const std::size_t gap = std::min(text.find_first_not_of(' ', word.size()), text.size());
    if (!is_empty && line.size() + word.size() > width) {
      line.erase(line.find_last_not_of(' ') + 1);
      lines += line + "\n";
      line.assign(indent, ' ');
    }
    line += text.substr(0, gap);  // with the spaces behind it, which columns are made of
    is_empty = false;
    text.remove_prefix(gap);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return lines + line + "\n";
}

std::string wrapped_help(std::string_view text, std::size_t width) {
  std::string lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines += wrapped(line, width, indent_of(line));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return lines;
}

}  // namespace penstock::cli
