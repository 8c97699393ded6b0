#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "alloc/result.h"
#include "swap/device/direct_storage.h"

namespace penstock {

/// NVIDIA's cuFile, as it is on this machine. It is asked once a process, and not at all where CUDA
/// shows no device. What it has to say of a refusal it writes to `cufile.log` in the current
/// directory, or where CUFILE_LOGFILE_PATH says.
DirectStorageFacts look_for_cufile();

/// For CUDA's device of that number, in its primary context. Errors (kUnsupported): why there is
/// nothing direct, or no such device; or penstock was built without cuFile's header.
Result<std::shared_ptr<DirectStorage>> open_cufile(std::uint32_t device);

/// The same with another library, which moves what the calling thread may reach: no device is
/// needed, and nothing is remembered. For tests, whose library moves host memory.
DirectStorageFacts look_for_cufile(std::span<const char* const> libraries);
Result<std::shared_ptr<DirectStorage>> open_cufile(std::span<const char* const> libraries);

}  // namespace penstock
