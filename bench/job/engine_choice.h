#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bench/job/job.h"
#include "bench/job/refusal.h"

namespace penstock::bench {

/// `ioengine=`: an engine under our name or fio's, or `sim:read=3.5g,write=3g,latency=80us`, of
/// which each part may be left out (these are what it is then). Rates are bytes per second as
/// parse_bytes() reads them.
Refusal read_engine(std::string_view text, Job& job);
/// Under our name; nothing where the job names none.
std::optional<std::string> write_engine(const Job& job);

}  // namespace penstock::bench
