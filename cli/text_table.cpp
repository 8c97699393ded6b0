#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::cli {

std::string TextTable::text() const {
  std::vector<std::string> headings;
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    headings.push_back(column.heading);
    widths.push_back(column.heading.size());
  }
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], row[c].size());
    }
  }
  std::string text;
  const auto append = [&](const std::vector<std::string>& cells) {
    std::string line = " ";
    for (std::size_t c = 0; c < cells.size(); ++c) {
      line += columns_[c].align == Align::kRight ? fmt::format(" {:>{}}", cells[c], widths[c])
                                                 : fmt::format(" {:<{}}", cells[c], widths[c]);
      line += ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  append(headings);
  for (const auto& row : rows_) {
    append(row);
  }
  return text;
}

}  // namespace penstock::cli
