#include "swap/device/cuda_driver.h"

#include <fmt/format.h>

#include <array>

namespace penstock {
namespace {

constexpr std::array kNames{"libcuda.so.1", "libcuda.so"};

Result<void> load_calls(const DynamicLibrary& library, CudaDriver& driver) {
#define PENSTOCK_TEXT(name) #name
#define PENSTOCK_LOAD(name) PENSTOCK_TRY(library.load(PENSTOCK_TEXT(name), driver.name));
  PENSTOCK_CUDA_CALLS(PENSTOCK_LOAD)
#undef PENSTOCK_LOAD
#undef PENSTOCK_TEXT
  return {};
}

}  // namespace

Result<std::shared_ptr<const CudaDriver>> CudaDriver::load() {
  const Result<DynamicLibrary> library = DynamicLibrary::open(kNames);
  PENSTOCK_TRY(library);
  auto driver = std::make_shared<CudaDriver>();
  PENSTOCK_TRY(load_calls(*library, *driver));
  if (const CUresult begun = driver->cuInit(0); begun != CUDA_SUCCESS) {
    return fault(Fault::kUnsupported, driver->error(begun, "CUDA cannot begin").message);
  }
  return driver;
}

Error CudaDriver::error(CUresult result, const std::string& doing) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    name = "an error that the driver does not know";
  }
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) {
    text = "";
  }
  const bool is_full = result == CUDA_ERROR_OUT_OF_MEMORY;
  return fault(is_full ? Fault::kExhausted : Fault::kUnsupported,
               fmt::format("{}: {} ({} {})", doing, text, name, static_cast<int>(result)));
}

}  // namespace penstock
