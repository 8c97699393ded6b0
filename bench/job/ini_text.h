#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"

namespace penstock::bench {

/// Where something stands, for errors: a line of a file, or the command line (no file).
struct TextPlace {
  std::string file;
  std::size_t line = 0;

  /// ` in FILE, line 7`, or nothing for the command line.
  std::string text() const;
};

/// `key=value` or `key` alone, without blanks around either and with the environment put in.
struct Assignment {
  std::string key;
  std::optional<std::string> value;
  TextPlace place;
};

/// `[name]` and what stands below it.
struct IniSection {
  std::string name;
  TextPlace place;
  std::vector<Assignment> assignments;

  bool is_global() const { return name == "global"; }
};

/// fio's job files: sections, `key=value`, comments (`;` or `#` at the begin of a line or after a
/// blank), `${VARIABLE}` within values. Errors: Fault::kConfiguration with file and line.
Result<std::vector<IniSection>> parse_ini(std::string_view text, const std::string& origin);

/// `key=value` or `key`. Errors (the end of a sentence): no key, a variable that is not set, a
/// control character.
Result<Assignment> parse_assignment(std::string_view text, const TextPlace& place);

}  // namespace penstock::bench
