#include "swap/plan/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace penstock {
namespace {

// A key of more letters than this is no misspelling of ours, and the distance costs their product.
constexpr std::size_t kLettersMax = 128;

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows of the optimal-string-alignment table for i - 2, i - 1 and i letters of `a`.
  std::array<std::vector<std::size_t>, 3> rows;
  for (auto& row : rows) {
    row.resize(b.size() + 1);
  }
  for (std::size_t j = 0; j <= b.size(); ++j) {
    rows[0][j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t>& row = rows[i % 3];
    const std::vector<std::size_t>& above = rows[(i - 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], rows[(i - 2) % 3][j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string_view nearest_name(std::string_view text, std::span<const std::string_view> names) {
  if (text.size() > kLettersMax) {
    return {};
  }
  std::string_view nearest;
  std::size_t nearest_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  for (const std::string_view name : names) {
    const std::size_t distance = edit_distance(text, name);
    // A name of which no letter is left is no neighbour, however short it is.
    if (distance < nearest_distance && distance < std::max(text.size(), name.size())) {
      nearest = name;
      nearest_distance = distance;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view text, std::span<const std::string_view> names) {
  const std::string_view nearest = nearest_name(text, names);
  return nearest.empty() ? std::string() : fmt::format("; did you mean \"{}\"?", nearest);
}

}  // namespace penstock
