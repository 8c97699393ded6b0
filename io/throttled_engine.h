#pragma once

#include <memory>

#include "io/drive_rates.h"
#include "io/io_engine.h"

namespace penstock {

/// Files of the machine as if they lay on a drive of given rates: a thread moves each request
/// (pread, pwrite), and the engine reports it no sooner than DriveSchedule says, by the machine's
/// clock. Limits a drive that is faster than these rates. VirtualEngine uses the same schedule with
/// a virtual clock. Errors: as make_thread_engine.
Result<std::unique_ptr<IoEngine>> make_throttled_engine(const DriveRates& rates,
                                                        const IoEngineOptions& options);

}  // namespace penstock
