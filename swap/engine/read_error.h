#pragma once

#include "alloc/result.h"
#include "swap/engine/tensor_record.h"

namespace penstock {

/// A get() to change `record`'s content, which a lease changes already.
Error being_changed(const TensorRecord& record) PENSTOCK_NEEDS_LOCK;

/// There is no memory to `verb` its content ("read", "copy") `purpose` ("into"): `cause` says why.
Error no_memory(const TensorRecord& record, const char* verb, const char* purpose,
                const Error& cause) noexcept PENSTOCK_NEEDS_LOCK;

}  // namespace penstock
