#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::cli {

enum class Align : std::uint8_t { kLeft, kRight };

/// Rows of cells under one heading, each column as wide as its widest cell; the last one is not
/// padded.
class TextTable {
 public:
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// Every line indented by two spaces and ended.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace penstock::cli
