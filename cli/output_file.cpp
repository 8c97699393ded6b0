#include "cli/output_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "bindings/archive/partial_file.h"
#include "io/file_system.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;            // as Linux's
constexpr ::mode_t kNewFileMode = 0666;  // less the umask, as any other program's

std::string directory_of(const fs::path& place) {
  return place.has_parent_path() ? place.parent_path().string() : ".";
}

Error cannot_write(const std::string& path) {
  return system_error(errno != 0 ? errno : EIO, fmt::format("cannot write {}", path), path);
}

// The process's own standard output or error, if `path` names what that goes to: a file there has
// other contents, too, and takes what comes behind them.
std::FILE* own_stream(const std::string& path) {
  struct ::stat named{};
  if (::stat(path.c_str(), &named) != 0) {
    return nullptr;
  }
  for (std::FILE* const stream : {stdout, stderr}) {
    struct ::stat own{};
    if (::fstat(::fileno(stream), &own) == 0 && named.st_dev == own.st_dev &&
        named.st_ino == own.st_ino) {
      return stream;
    }
  }
  return nullptr;
}

// A pipe, a terminal, /dev/null or what we write to already: nothing of it is to be replaced.
bool is_stream(const std::string& path) {
  std::error_code ignored;
  return own_stream(path) != nullptr || fs::is_character_file(path, ignored) ||
         fs::is_fifo(path, ignored);
}

Result<void> write_stream(const std::string& path, const std::string& text) {
  errno = 0;
  if (std::FILE* const stream = own_stream(path); stream != nullptr) {
    const bool arrived =
        std::fwrite(text.data(), 1, text.size(), stream) == text.size() && std::fflush(stream) == 0;
    return arrived ? Result<void>() : cannot_write(path);
  }
  std::ofstream stream(path);
  stream << text << std::flush;
  return stream ? Result<void>() : cannot_write(path);
}

}  // namespace

std::string output_place(const std::string& path) {
  std::error_code error;
  fs::path place = fs::weakly_canonical(path, error);
  // A link to nothing is left as it is; the file that it names is to be made.
  std::error_code nothing_there;
  for (int links = 0; !error && links < kLinksMax && fs::is_symlink(place, nothing_there);
       ++links) {
    place = fs::weakly_canonical(place.parent_path() / fs::read_symlink(place, error), error);
  }
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
    return ::access(path.c_str(), W_OK) == 0 ? Result<void>() : cannot_write(path);
  }
  return check_output_file(path);
}

Result<void> check_output_file(const std::string& path) {
  const fs::path place = output_place(path);
  std::error_code ignored;
  if (place.filename().empty() || (fs::exists(place, ignored) && !fs::is_regular_file(place))) {
    return fault(Fault::kInvalidArgument, fmt::format("cannot write {}: it is no file", path));
  }
  if (::access(directory_of(place).c_str(), W_OK | X_OK) != 0) {
    return cannot_write(path);
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
