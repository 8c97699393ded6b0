#include "bench/report/html_text.h"

#include <fmt/format.h>

namespace penstock::bench {

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text) {
    switch (letter) {
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '&':
        safe += "&amp;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += letter;
    }
  }
  return safe;
}

std::string HtmlTable::html() const {
  const auto line = [](const std::vector<std::string>& cells, const char* tag) {
    std::string text = "<tr>";
    for (const std::string& cell : cells) {
      text += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell));
    }
    return text + "</tr>\n";
  };
  std::string text = "<div class='wide'><table>\n<thead>" + line(headings_, "th") + "</thead>\n";
  for (const std::vector<std::string>& row : rows_) {
    text += line(row, "td");
  }
  return text + "</table></div>\n";
}

std::string html_section(std::string_view id, std::string_view heading, std::string_view content) {
  return content.empty() ? std::string()
                         : fmt::format("<section id='{}'>\n<h2>{}</h2>\n{}</section>\n", id,
                                       escaped(heading), content);
}

}  // namespace penstock::bench
