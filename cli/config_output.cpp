#include "cli/config_output.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "bindings/archive/partial_file.h"
#include "io/file_system.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

constexpr ::mode_t kNewFileMode = 0666;  // less the umask, as any other program's

// Where the file is that a symbolic link names; `path` itself where there is none.
fs::path place_of(const std::string& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : place;
}

std::string directory_of(const fs::path& place) {
  return place.has_parent_path() ? place.parent_path().string() : ".";
}

::mode_t mode_of(const fs::path& place) {
  struct ::stat info{};
  if (::stat(place.c_str(), &info) == 0) {
    return info.st_mode & 07777;
  }
  const ::mode_t mask = ::umask(0);
  (void)::umask(mask);
  return kNewFileMode & ~mask;
}

}  // namespace

Result<void> check_output(const std::string& path) {
  const fs::path place = place_of(path);
  std::error_code ignored;
  if (place.filename().empty() || (fs::exists(place, ignored) && !fs::is_regular_file(place))) {
    return fault(Fault::kInvalidArgument, fmt::format("cannot write {}: it is no file", path));
  }
  if (::access(directory_of(place).c_str(), W_OK | X_OK) != 0) {
    return system_error(errno, fmt::format("cannot write {}", path), path);
  }
  return {};
}

Result<void> write_config(const std::string& path, const std::string& text) {
  PENSTOCK_TRY(check_output(path));
  const fs::path place = place_of(path);
  const ::mode_t mode = mode_of(place);
  const Result<std::unique_ptr<Directory>> directory =
      os_file_system().open_directory(directory_of(place));
  PENSTOCK_TRY(directory);
  const Result<std::unique_ptr<PartialFile>> begun =
      PartialFile::begin(**directory, place.filename().string(), text.size());
  PENSTOCK_TRY(begun);
  PartialFile& file = **begun;
  PENSTOCK_TRY(file.write(text));
  if (::fchmod(file.file().fd(), mode) != 0) {
    return system_error(errno, fmt::format("cannot write {}", path), path);
  }
  PENSTOCK_TRY(file.finish());
  return file.publish();
}

}  // namespace penstock::cli
