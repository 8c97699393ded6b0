#pragma once

namespace penstock::cli {

/// Takes a terminal's cursor to the beginning of its line, and away what stands there (EL of
/// ECMA-48): before each state of a line that changes, and after the last.
inline constexpr const char* kEraseLine = "\r\x1b[K";

}  // namespace penstock::cli
