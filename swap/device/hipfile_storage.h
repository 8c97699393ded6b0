#pragma once

#include <cstdint>
#include <memory>

#include "alloc/result.h"
#include "swap/device/direct_storage.h"

namespace penstock {

/// AMD's hipFile, as it is on this machine. It has no call that forbids it to copy through host
/// memory, or that says whether it does: it is taken for direct where its environment forbids that
/// (HIPFILE_ALLOW_COMPAT_MODE=false) and the kernel's driver has the way past it. Asked once a
/// process, and not at all where HIP shows no device.
DirectStorageFacts look_for_hipfile();

/// For HIP's device of that number. Errors (kUnsupported): why there is nothing direct, or no such
/// device; or penstock was built without hipFile's header.
Result<std::shared_ptr<DirectStorage>> open_hipfile(std::uint32_t device);

}  // namespace penstock
