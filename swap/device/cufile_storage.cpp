#include "swap/device/cufile_storage.h"

#include "swap/device/cufile_library.h"
#include "swap/device/library_storage.h"

namespace penstock {
namespace {

FoundLibrary<CufileLibrary> examine(std::span<const char* const> libraries) {
  return look_for_library<CufileLibrary>(libraries, [] { return std::string(); });
}

}  // namespace

DirectStorageFacts look_for_cufile() {
  return library_of_process<CufileLibrary>().facts;
}

Result<std::shared_ptr<DirectStorage>> open_cufile(std::uint32_t device) {
  return open_library<CufileLibrary>(device);
}

DirectStorageFacts look_for_cufile(std::span<const char* const> libraries) {
  return examine(libraries).facts;
}

Result<std::shared_ptr<DirectStorage>> open_cufile(std::span<const char* const> libraries) {
  const FoundLibrary<CufileLibrary> found = examine(libraries);
  if (!found.facts.is_direct) {
    return fault(Fault::kUnsupported, found.facts.reason);
  }
  return std::make_shared<LibraryStorage<CufileLibrary>>(found.library, nullptr);
}

}  // namespace penstock
