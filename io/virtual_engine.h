#pragma once

#include <memory>

#include "io/drive_rates.h"
#include "io/io_engine.h"
#include "io/virtual_clock.h"
#include "io/virtual_drive.h"

namespace penstock {

/// Requests to a simulated drive of given rates end when DriveSchedule says, in the time of
/// `clock`: a blocking wait jumps there (or to the clock's horizon, with no result), so nothing
/// here ever sleeps, and the same requests take the same nanoseconds on any machine. What the CPU
/// does takes no time. `clock` and `drive` outlive the engine.
///
/// For a queue that its caller drives (IoQueue::start_for_caller): there is no completion_fd().
Result<std::unique_ptr<IoEngine>> make_virtual_engine(VirtualClock& clock, VirtualDrive& drive,
                                                      const DriveRates& rates,
                                                      const IoEngineOptions& options);

}  // namespace penstock
