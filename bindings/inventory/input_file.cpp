#include "bindings/inventory/input_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <span>

namespace penstock {

Result<InputFile> InputFile::open(const std::string& path) {
  Result<File> file = File::open(path, File::Access::kRead, DirectMode::kBuffered);
  PENSTOCK_TRY(file);
  struct stat facts{};
  if (::fstat(file->fd(), &facts) != 0) {
    return system_error(errno, fmt::format("cannot look at {}", path), path);
  }
  if (!S_ISREG(facts.st_mode)) {
    return fault(Fault::kInvalidArgument, fmt::format("{} is not a regular file", path), path);
  }
  return InputFile(std::move(*file), static_cast<std::uint64_t>(facts.st_size));
}

Result<std::string> InputFile::read(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset > size_bytes_ || bytes > size_bytes_ - offset) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} ends at byte {}, before the {} bytes expected at {}", path(),
                             size_bytes_, bytes, offset),
                 path());
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  const Result<void> read = file_.read_at(offset, std::as_writable_bytes(std::span(text)));
  if (read.has_error() && read.error().system_errno() == ENODATA) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} became shorter while it was read", path()), path());
  }
  PENSTOCK_TRY(read);
  return text;
}

Result<std::string> read_text_file(const std::string& path, std::uint64_t bytes_max) {
  const Result<InputFile> file = InputFile::open(path);
  PENSTOCK_TRY(file);
  if (file->size_bytes() > bytes_max) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} has {} bytes; a file of this kind has at most {}", path,
                             file->size_bytes(), bytes_max),
                 path);
  }
  return file->read(0, file->size_bytes());
}

}  // namespace penstock
