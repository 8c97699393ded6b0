#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// How many single-letter insertions, removals, replacements and swaps of neighbours turn `a` into
/// `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name that `text` was most likely meant to be: the one with the smallest edit distance, the
/// first among equals. Empty where even that one is further away than a third of `text`'s length
/// (at least 2), because a far-fetched suggestion misleads.
std::string_view nearest_name(std::string_view text, std::span<const std::string_view> names);

/// `; did you mean "max_pinned_bytes"?` for use in the middle of a sentence, or nothing.
std::string did_you_mean(std::string_view text, std::span<const std::string_view> names);

}  // namespace penstock
