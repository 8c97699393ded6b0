#pragma once

#include <string>

#include "alloc/result.h"
#include "io/file.h"
#include "io/io_op.h"
#include "swap/transfer/stored_tensor.h"

namespace penstock {

/// Why a tensor could not be moved, in the words that all kinds of transfers share. Both name the
/// tensor, the path and the offset there.

/// A drive refused: `op` has failed.
Error drive_error(const IoOp& op, const std::string& tensor_name, std::uint64_t tensor_bytes);

/// What came back is not what was written; `difference` says how.
Error content_error(const File& file, const StoredTensor& stored, const std::string& tensor_name,
                    const std::string& difference);

}  // namespace penstock
