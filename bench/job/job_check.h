#pragma once

#include <string>

#include "alloc/result.h"
#include "bench/job/job.h"

namespace penstock::bench {

/// Whether the keys of a job make sense together. Errors: Fault::kConfiguration, a sentence that
/// names the job and the keys; `place` (` in FILE, line 7`, or empty) stands behind the name.
Result<void> check_job(const Job& job, const std::string& place = {});

}  // namespace penstock::bench
