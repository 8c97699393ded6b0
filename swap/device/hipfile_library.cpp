#include "swap/device/hipfile_library.h"

#include <fmt/format.h>
#include <strings.h>

#include <cstdlib>
#include <fstream>

#include "swap/device/runtime_device.h"

namespace penstock {
namespace {

bool kernel_has_direct_way() {
  std::ifstream symbols("/proc/kallsyms");
  for (std::string line; std::getline(symbols, line);) {
    if (line.find("kfd_ais_rw_file") != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string HipfileLibrary::version() const {
  unsigned major = 0;
  unsigned minor = 0;
  return get_version(&major, &minor, nullptr).err == hipFileSuccess
             ? fmt::format("{}.{}", major, minor)
             : std::string();
}

Result<void> HipfileLibrary::begin_direct() const {
  const char* const allowed = std::getenv("HIPFILE_ALLOW_COMPAT_MODE");
  if (allowed == nullptr || ::strcasecmp(allowed, "false") != 0) {
    return fault(Fault::kUnsupported,
                 "it copies through host memory without saying so unless "
                 "HIPFILE_ALLOW_COMPAT_MODE is false");
  }
  if (!kernel_has_direct_way()) {
    return fault(Fault::kUnsupported,
                 "the kernel's amdgpu driver has no direct storage (kfd_ais_rw_file in "
                 "/proc/kallsyms)");
  }
  const hipFileOpError_t begun = open_driver().err;
  return begun == hipFileSuccess ? Result<void>() : refusal(begun, "hipFile cannot begin");
}

Error HipfileLibrary::error(Status result, const std::string& doing) const {
  if (result.err != hipFileHipDriverError) {
    return refusal(result.err, doing);
  }
  const Result<std::shared_ptr<const HipRuntime>> hip = load_runtime<HipRuntime>();
  return hip.has_error() ? hip.error() : (*hip)->error(result.hip_drv_err, doing);
}

Error HipfileLibrary::refusal(std::int64_t number, const std::string& doing) const {
  if (number <= HIPFILE_BASE_ERR || number >= HIPFILE_BASE_ERR + 1000) {
    return fault(Fault::kUnsupported, fmt::format("{}: error {}", doing, number));
  }
  const auto code = static_cast<hipFileOpError_t>(number);
  const char* const text = error_text(code);
  return fault(
      code == hipFileGPUMemoryPinningFailed ? Fault::kExhausted : Fault::kUnsupported,
      fmt::format("{}: {} ({})", doing, text != nullptr ? text : "an unknown error", number));
}

}  // namespace penstock
