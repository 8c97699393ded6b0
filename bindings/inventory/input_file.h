#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "alloc/result.h"
#include "io/file.h"

namespace penstock {

/// A regular file open for reading; closes it when destroyed. Move-only.
/// For descriptions of models (headers, JSON), not for tensors: reads are small, buffered,
/// blocking.
class InputFile {
 public:
  /// Errors: errno with the path; Fault::kInvalidArgument for what is no regular file (a pipe or a
  /// device could deliver for ever).
  static Result<InputFile> open(const std::string& path);

  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  const std::string& path() const noexcept { return file_.path(); }

  /// Exactly [offset, offset + bytes). Errors: errno; Fault::kInvalidArgument where the file ends
  /// earlier (another process may have made it shorter since it was opened).
  Result<std::string> read(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  InputFile(File file, std::uint64_t size_bytes)
      : file_(std::move(file)), size_bytes_(size_bytes) {}

  File file_;
  std::uint64_t size_bytes_;
};

/// The whole of a file of at most `bytes_max`.
Result<std::string> read_text_file(const std::string& path, std::uint64_t bytes_max);

}  // namespace penstock
