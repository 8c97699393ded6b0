#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bench/job/job.h"
#include "bench/job/refusal.h"

namespace penstock::bench {

/// `compute=[sleep:|spin:]TIME[/GB|/tensor]`: spun and per tensor where it says nothing else.
/// A time without a unit is in microseconds.
Refusal read_compute(std::string_view text, Job& job);
std::optional<std::string> write_compute(const Job& job);

}  // namespace penstock::bench
