#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::cli {

/// Columns of the terminal that standard output is; else $COLUMNS; else 80. Never below 40.
std::size_t output_width();

/// One paragraph broken between words into lines of at most `width` bytes; all but the first begin
/// with `indent` spaces. A longer word has a line of its own. Ends with a line end.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

/// A help text of CLI11 whose lines are broken likewise, descriptions below their first word.
std::string wrapped_help(std::string_view text, std::size_t width);

}  // namespace penstock::cli
