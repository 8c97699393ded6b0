#include "swap/transfer/transfer_error.h"

#include <fmt/format.h>

#include "alloc/bytes.h"

namespace penstock {

Error drive_error(const IoOp& op, const std::string& tensor_name, std::uint64_t tensor_bytes) {
  const bool reads = op.kind == IoKind::kRead;
  Error error =
      system_error(op.error,
                   fmt::format("cannot {} tensor '{}' ({}) {} {} at offset {}",
                               reads ? "read" : "write", tensor_name, format_bytes(tensor_bytes),
                               reads ? "from" : "to", op.file->path(), op.error_offset),
                   op.file->path());
  error.tensor = tensor_name;
  return error;
}

Error content_error(const File& file, const StoredTensor& stored, const std::string& tensor_name,
                    const std::string& difference) {
  Error error =
      fault(Fault::kCorrupt,
            fmt::format("tensor '{}' came back wrong from {} at offset {}: {}; check the drive "
                        "(dmesg, smartctl)",
                        tensor_name, file.path(), stored.extent.offset, difference));
  error.path = file.path();
  error.tensor = tensor_name;
  return error;
}

}  // namespace penstock
