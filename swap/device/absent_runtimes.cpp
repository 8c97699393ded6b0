#include <fmt/format.h>

#include "swap/device/cuda_device.h"
#include "swap/device/cufile_storage.h"
#include "swap/device/hip_device.h"
#include "swap/device/hipfile_storage.h"

// What stands for a runtime or a library whose headers were missing when penstock was built.

namespace penstock {
namespace {

[[maybe_unused]] Error absent(std::string_view headers) {
  return fault(Fault::kUnsupported, fmt::format("this penstock was built without {}", headers));
}

[[maybe_unused]] DirectStorageFacts absent(std::string_view runtime, std::string_view library,
                                           std::string_view header) {
  DirectStorageFacts facts;
  facts.runtime = runtime;
  facts.library = library;
  facts.reason = absent(header).message;
  return facts;
}

}  // namespace

#ifdef PENSTOCK_ABSENT_CUDA
Result<std::vector<DeviceFacts>> list_cuda_devices() {
  return absent("CUDA's headers (cuda.h)");
}
Result<std::shared_ptr<Device>> open_cuda_device(std::uint32_t) {
  return absent("CUDA's headers (cuda.h)");
}
#endif

#ifdef PENSTOCK_ABSENT_HIP
Result<std::vector<DeviceFacts>> list_hip_devices() {
  return absent("HIP's headers (hip/hip_runtime_api.h)");
}
Result<std::shared_ptr<Device>> open_hip_device(std::uint32_t) {
  return absent("HIP's headers (hip/hip_runtime_api.h)");
}
#endif

#ifdef PENSTOCK_ABSENT_CUFILE
DirectStorageFacts look_for_cufile(std::span<const char* const>) {
  return absent("cuda", "cuFile", "cuFile's header (cufile.h)");
}
DirectStorageFacts look_for_cufile() {
  return look_for_cufile({});
}
Result<std::shared_ptr<DirectStorage>> open_cufile(std::span<const char* const>) {
  return absent("cuFile's header (cufile.h)");
}
Result<std::shared_ptr<DirectStorage>> open_cufile(std::uint32_t) {
  return absent("cuFile's header (cufile.h)");
}
#endif

#ifdef PENSTOCK_ABSENT_HIPFILE
DirectStorageFacts look_for_hipfile() {
  return absent("hip", "hipFile", "hipFile's header (hipfile.h)");
}
Result<std::shared_ptr<DirectStorage>> open_hipfile(std::uint32_t) {
  return absent("hipFile's header (hipfile.h)");
}
#endif

}  // namespace penstock
