#include "swap/device/cuda_driver.h"

#include <fmt/format.h>

namespace penstock {
namespace {

std::string cannot_open(std::uint32_t number) {
  return fmt::format("CUDA cannot open device {}", number);
}

}  // namespace

Result<CUdevice> CudaDriver::device_of(std::uint32_t number) const {
  CUdevice found = 0;
  PENSTOCK_TRY(check(device(&found, static_cast<int>(number)), cannot_open(number)));
  return found;
}

Error CudaDriver::error(CUresult result, const std::string& doing) const {
  const char* its_name = nullptr;
  const char* text = nullptr;
  if (error_name(result, &its_name) != CUDA_SUCCESS || its_name == nullptr) {
    its_name = "an error that the driver does not know";
  }
  if (error_text(result, &text) != CUDA_SUCCESS || text == nullptr) {
    text = "";
  }
  const bool is_full = result == CUDA_ERROR_OUT_OF_MEMORY;
  return fault(is_full ? Fault::kExhausted : Fault::kUnsupported,
               fmt::format("{}: {} ({} {})", doing, text, its_name, static_cast<int>(result)));
}

Result<std::unique_ptr<const CudaContext>> CudaContext::retain(
    std::shared_ptr<const CudaDriver> driver, std::uint32_t number) {
  const Result<CUdevice> device = driver->device_of(number);
  PENSTOCK_TRY(device);
  CUcontext context = nullptr;
  PENSTOCK_TRY(driver->check(driver->retain_context(&context, *device), cannot_open(number)));
  return std::make_unique<const CudaContext>(std::move(driver), *device, context);
}

}  // namespace penstock
