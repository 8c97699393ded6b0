#include "cli/output_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "bindings/archive/partial_file.h"
#include "io/file_system.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

constexpr ::mode_t kNewFileMode = 0666;  // less the umask, as any other program's

std::string directory_of(const fs::path& place) {
  return place.has_parent_path() ? place.parent_path().string() : ".";
}

// A pipe, a terminal or /dev/null: nothing of it can be replaced.
bool is_stream(const fs::path& place) {
  std::error_code ignored;
  return fs::is_character_file(place, ignored) || fs::is_fifo(place, ignored);
}

Result<void> write_stream(const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream stream(path);
  stream << text << std::flush;
  return stream
             ? Result<void>()
             : system_error(errno != 0 ? errno : EIO, fmt::format("cannot write {}", path), path);
}

}  // namespace

std::string output_place(const std::string& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(path, error);
  return error ? path : place.string();
}

::mode_t output_mode(const std::string& place) {
  struct ::stat info{};
  if (::stat(place.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    return info.st_mode & 07777;
  }
  const ::mode_t mask = ::umask(0);
  (void)::umask(mask);
  return kNewFileMode & ~mask;
}

Result<void> check_output(const std::string& path) {
  if (is_stream(path)) {
    return ::access(path.c_str(), W_OK) == 0
               ? Result<void>()
               : system_error(errno, fmt::format("cannot write {}", path), path);
  }
  const fs::path place = output_place(path);
  std::error_code ignored;
  if (place.filename().empty() || (fs::exists(place, ignored) && !fs::is_regular_file(place))) {
    return fault(Fault::kInvalidArgument, fmt::format("cannot write {}: it is no file", path));
  }
  if (::access(directory_of(place).c_str(), W_OK | X_OK) != 0) {
    return system_error(errno, fmt::format("cannot write {}", path), path);
  }
  return {};
}

Result<void> write_output(const std::string& path, const std::string& text) {
  PENSTOCK_TRY(check_output(path));
  if (is_stream(path)) {
    return write_stream(path, text);
  }
  const fs::path place = output_place(path);
  const Result<std::unique_ptr<Directory>> directory =
      os_file_system().open_directory(directory_of(place));
  PENSTOCK_TRY(directory);
  const Result<std::unique_ptr<PartialFile>> begun =
      PartialFile::begin(**directory, place.filename().string(), text.size());
  PENSTOCK_TRY(begun);
  PartialFile& file = **begun;
  PENSTOCK_TRY(file.write(text));
  PENSTOCK_TRY(file.set_mode(output_mode(place)));
  PENSTOCK_TRY(file.finish());
  return file.publish();
}

}  // namespace penstock::cli
