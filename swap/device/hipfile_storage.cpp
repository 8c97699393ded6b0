#include "swap/device/hipfile_storage.h"

#include "swap/device/hipfile_library.h"
#include "swap/device/library_storage.h"

namespace penstock {

DirectStorageFacts look_for_hipfile() {
  return library_of_process<HipfileLibrary>().facts;
}

Result<std::shared_ptr<DirectStorage>> open_hipfile(std::uint32_t device) {
  return open_library<HipfileLibrary>(device);
}

}  // namespace penstock
