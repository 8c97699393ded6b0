#include "swap/device/cufile_storage.h"

// Where cuFile's header, or CUDA's beside it, was missing when penstock was built.

namespace penstock {
namespace {

DirectStorageFacts absent() {
  DirectStorageFacts facts;
  facts.runtime = "cuda";
  facts.library = "cuFile";
  facts.reason = "this penstock was built without cuFile's header (cufile.h)";
  return facts;
}

}  // namespace

DirectStorageFacts look_for_cufile() {
  return absent();
}

Result<std::shared_ptr<DirectStorage>> open_cufile(std::uint32_t) {
  return fault(Fault::kUnsupported, absent().reason);
}

DirectStorageFacts look_for_cufile(std::span<const char* const>) {
  return absent();
}

Result<std::shared_ptr<DirectStorage>> open_cufile(std::span<const char* const>) {
  return fault(Fault::kUnsupported, absent().reason);
}

}  // namespace penstock
