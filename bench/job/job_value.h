#pragma once

#include <string_view>

#include "bench/job/job.h"
#include "bench/job/job_number.h"

// Readers of values that are more than a number or a word.

namespace penstock::bench {

/// `ioengine=`: an engine under our name or fio's, or `sim:read=3.5g,write=3g,latency=80us`, of
/// which each part may be left out (these are what it is then).
Refusal read_engine(std::string_view text, Job& job);
/// `compute=[sleep:]TIME[/GB]`: spun and per tensor where it says nothing else. A time without a
/// unit is in microseconds.
Refusal read_compute(std::string_view text, Job& job);
/// `rw=`: read, write, rw (readwrite).
Refusal read_direction(std::string_view text, Job& job);
/// `size=`: bytes, or a share such as 10%.
Refusal read_job_size(std::string_view text, Job& job);
/// `cpus_allowed=`: `0-3,6`.
Refusal read_cpus(std::string_view text, Job& job);

}  // namespace penstock::bench
