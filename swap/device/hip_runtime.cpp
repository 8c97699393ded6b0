#include "swap/device/hip_runtime.h"

#include <fmt/format.h>

#include <array>

namespace penstock {
namespace {

// Newest first: the number changes with ROCm's.
constexpr std::array kNames{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                            "libamdhip64.so"};

Result<void> load_calls(const DynamicLibrary& library, HipRuntime& hip) {
#define PENSTOCK_TEXT(name) #name
#define PENSTOCK_LOAD(name) PENSTOCK_TRY(library.load(PENSTOCK_TEXT(name), hip.name));
  PENSTOCK_HIP_CALLS(PENSTOCK_LOAD)
#undef PENSTOCK_LOAD
#undef PENSTOCK_TEXT
  return {};
}

}  // namespace

Result<std::shared_ptr<const HipRuntime>> HipRuntime::load() {
  const Result<DynamicLibrary> library = DynamicLibrary::open(kNames);
  PENSTOCK_TRY(library);
  auto hip = std::make_shared<HipRuntime>();
  PENSTOCK_TRY(load_calls(*library, *hip));
  if (const hipError_t begun = hip->hipInit(0); begun != hipSuccess) {
    return fault(Fault::kUnsupported, hip->error(begun, "HIP finds no device that works").message);
  }
  return hip;
}

Error HipRuntime::error(hipError_t result, const std::string& doing) const {
  const std::string name = fmt::format("{} {}", hipGetErrorName(result), static_cast<int>(result));
  const std::string text = hipGetErrorString(result);
  const bool says_more = !name.starts_with(text);  // old runtimes have no words for errors
  return fault(result == hipErrorOutOfMemory ? Fault::kExhausted : Fault::kUnsupported,
               says_more ? fmt::format("{}: {} ({})", doing, text, name)
                         : fmt::format("{}: {}", doing, name));
}

}  // namespace penstock
