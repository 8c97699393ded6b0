#pragma once

#include <sys/types.h>

#include <string>

#include "alloc/result.h"

namespace penstock::cli {

// What a command writes when its work is done: a configuration, a report, a picture.

/// Where the file is that a symbolic link names; `path` itself where there is none.
std::string output_place(const std::string& path);

/// Of the file that stands there, else of any new one under the umask.
::mode_t output_mode(const std::string& place);

/// Whether a file could be written there: not to a pipe or device. Errors: errno and path; no file.
Result<void> check_output_file(const std::string& path);

/// Whether write_output() could write there, before long work is begun for it. Errors: errno and
/// path (no such directory, not ours to write to), or something that is no file.
Result<void> check_output(const std::string& path);

/// Writes `text` to a file that is replaced as a whole or not at all (where it is a symbolic link,
/// the file that this names); to a pipe or device as it comes, and to the process's own standard
/// output, whatever that is (/dev/stdout). Errors: errno and path.
Result<void> write_output(const std::string& path, const std::string& text);

}  // namespace penstock::cli
