#pragma once

#include <cstdint>
#include <string>

#include "alloc/result.h"

namespace penstock {

/// A regular file open for reading; closes it when destroyed. Move-only.
/// For descriptions of models (headers, JSON), not for tensors: reads are small, buffered,
/// blocking.
class InputFile {
 public:
  /// Errors: errno with the path; Fault::kInvalidArgument for what is no regular file (a pipe or a
  /// device could deliver for ever).
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  const std::string& path() const noexcept { return path_; }

  /// Exactly [offset, offset + bytes). Errors: errno; Fault::kInvalidArgument where the file ends
  /// earlier (another process may have made it shorter since it was opened).
  Result<std::string> read(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  InputFile(int fd, std::string path, std::uint64_t size_bytes);

  int fd_ = -1;
  std::string path_;
  std::uint64_t size_bytes_ = 0;
};

/// The whole of a file of at most `bytes_max`.
Result<std::string> read_text_file(const std::string& path, std::uint64_t bytes_max);

}  // namespace penstock
