#include "bindings/deepspeed/directory_listing.h"

#include <sys/stat.h>

#include <memory>

#include "io/file_system.h"

namespace penstock {

Result<std::vector<std::string>> list_directory(const std::string& directory) {
  const Result<std::unique_ptr<Directory>> opened = os_file_system().open_directory(directory);
  PENSTOCK_TRY(opened);
  return (*opened)->list();
}

bool is_directory(const std::string& path) {
  struct ::stat facts{};
  return ::stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

bool is_directory_itself(const std::string& path) {
  struct ::stat facts{};
  return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

}  // namespace penstock
