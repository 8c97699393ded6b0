#include "swap/device/hipfile_storage.h"

// Where hipFile's header, or HIP's beside it, was missing when penstock was built.

namespace penstock {

DirectStorageFacts look_for_hipfile() {
  DirectStorageFacts facts;
  facts.runtime = "hip";
  facts.library = "hipFile";
  facts.reason = "this penstock was built without hipFile's header (hipfile.h)";
  return facts;
}

Result<std::shared_ptr<DirectStorage>> open_hipfile(std::uint32_t) {
  return fault(Fault::kUnsupported, look_for_hipfile().reason);
}

}  // namespace penstock
