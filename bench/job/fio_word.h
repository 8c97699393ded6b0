#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bench/job/job.h"
#include "bench/job/refusal.h"

// Values that are one of fio's words and more than one enumerator.

namespace penstock::bench {

/// `rw=`: read, write, randread, randwrite, rw or readwrite, randrw.
Refusal read_direction(std::string_view text, Job& job);
std::optional<std::string> write_direction(const Job& job);

/// `fallocate=`: `native` where the file system can; `posix`, `keep` and 1 must; `none`, `truncate`
/// and 0 must not.
Refusal read_fallocate(std::string_view text, Job& job);
std::optional<std::string> write_fallocate(const Job& job);

/// `verify=`: any of fio's checksums, as every byte is compared whatever is named; 1 is crc32c, 0
/// nothing.
Refusal read_verify(std::string_view text, Job& job);
std::optional<std::string> write_verify(const Job& job);

}  // namespace penstock::bench
