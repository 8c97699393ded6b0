#pragma once

#include <memory>

#include "io/drive_rates.h"
#include "io/io_engine.h"

namespace penstock {

/// Files of the machine as if they lay on a drive of given rates: each request is moved by a thread
/// (pread, pwrite) and told of no sooner than DriveSchedule says, by the machine's clock. What a
/// drive is held to that is faster than these rates, and the other half of VirtualEngine: both ask
/// one schedule. Errors: as make_thread_engine.
Result<std::unique_ptr<IoEngine>> make_throttled_engine(const DriveRates& rates,
                                                        const IoEngineOptions& options);

}  // namespace penstock
