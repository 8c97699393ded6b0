#include "swap/device/hip_runtime.h"

#include <fmt/format.h>

namespace penstock {

Error HipRuntime::error(hipError_t result, const std::string& doing) const {
  const std::string its_name = fmt::format("{} {}", error_name(result), static_cast<int>(result));
  const std::string text = error_text(result);
  const bool says_more = !its_name.starts_with(text);  // old runtimes have no words for errors
  return fault(result == hipErrorOutOfMemory ? Fault::kExhausted : Fault::kUnsupported,
               says_more ? fmt::format("{}: {} ({})", doing, text, its_name)
                         : fmt::format("{}: {}", doing, its_name));
}

}  // namespace penstock
