#pragma once

#include "bench/job/job.h"
#include "bench/job/refusal.h"

namespace penstock::bench {

/// Why the keys of a job make no sense together, as a sentence; nothing where they do.
Refusal check_job(const Job& job);

}  // namespace penstock::bench
