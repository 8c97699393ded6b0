#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/result.h"

namespace penstock::bench {

/// Where something was said, for errors: a line of a file, or the command line (no file).
struct TextPlace {
  std::string file;
  std::size_t line = 0;
  /// The file was named by an `include`. A job may come from elsewhere and include any file: what
  /// stands there is never shown, unless it is a key of a job.
  bool is_included = false;

  /// ` in FILE, line 7`, or nothing for the command line.
  std::string text() const;
};

/// For a line of an included file that is no key of a job: says where it stands, not what it says.
Error hidden_line(const TextPlace& place);

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

/// The text of a file that another includes.
using TextReader = std::function<Result<std::string>(const std::string& path)>;
/// From the file system; a job file has at most a megabyte.
Result<std::string> read_job_text(const std::string& path);

/// fio's job files: sections, `key=value`, comments (`;` or `#` at the begin of a line or after a
/// blank), `${VARIABLE}` within values, `include FILE` (keys of the section that it stands in; the
/// path is relative to the file that says it). Errors: Fault::kConfiguration with file and line,
/// what `read` says of an included file with the place that wanted it.
Result<std::vector<IniSection>> parse_ini(std::string_view text, const std::string& origin,
                                          const TextReader& read);

/// The value with each `${VARIABLE}` replaced. Errors (the end of a sentence): a variable that is
/// not set, no closing brace; and what could not be written into a job file again: control
/// characters, ` ;`, ` #`.
Result<std::string> expanded_value(std::string_view value);

}  // namespace penstock::bench
