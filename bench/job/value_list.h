#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bench/job/job.h"
#include "bench/job/refusal.h"

namespace penstock::bench {

/// fio's `filename=a:b`; a colon that belongs to a name is written `\:`.
Refusal read_filenames(std::string_view text, Job& job);
std::optional<std::string> write_filenames(const Job& job);

/// fio's `percentile_list=99.0:99.9`, at most 20; kept ascending.
Refusal read_percentiles(std::string_view text, Job& job);
std::optional<std::string> write_percentiles(const Job& job);

}  // namespace penstock::bench
