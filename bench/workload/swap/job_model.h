#pragma once

#include "alloc/result.h"
#include "bench/job/job.h"
#include "bindings/deepspeed/training_setup.h"

namespace penstock::bench {

/// The model that a job names and how it is trained: `inventory=`, of it `size=` bytes (or that
/// share), under `config=`. Errors: those of the files.
Result<TrainingSetup> job_model(const Job& job);

}  // namespace penstock::bench
