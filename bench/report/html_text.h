#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock::bench {

/// What may stand between tags and in quotes of HTML: names of jobs come from anywhere.
std::string escaped(std::string_view text);

/// A table that scrolls by itself where the page is too narrow. Cells are texts, not HTML.
class HtmlTable {
 public:
  explicit HtmlTable(std::vector<std::string> headings) : headings_(std::move(headings)) {}

  /// As many cells as there are headings.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const noexcept { return rows_.empty(); }
  std::string html() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

/// A part of the page under its heading, found by `id`; nothing where it has no content.
std::string html_section(std::string_view id, std::string_view heading, std::string_view content);

}  // namespace penstock::bench
