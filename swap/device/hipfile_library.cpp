#include "swap/device/hipfile_library.h"

#include <fmt/format.h>

#include <array>

namespace penstock {
namespace {

#define PENSTOCK_TEXT(name) #name
#define PENSTOCK_VERSIONED(name, major) name "." PENSTOCK_TEXT(major)
// The number is that of the header: another one is another interface.
constexpr std::array kNames{PENSTOCK_VERSIONED("libhipfile.so", HIPFILE_VERSION_MAJOR),
                            "libhipfile.so"};

Result<void> load_calls(const DynamicLibrary& library, HipfileLibrary& hipfile) {
#define PENSTOCK_LOAD(name) PENSTOCK_TRY(library.load(PENSTOCK_TEXT(name), hipfile.name));
  PENSTOCK_HIPFILE_CALLS(PENSTOCK_LOAD)
#undef PENSTOCK_LOAD
  return {};
}
#undef PENSTOCK_VERSIONED
#undef PENSTOCK_TEXT

}  // namespace

Result<std::shared_ptr<const HipfileLibrary>> HipfileLibrary::load() {
  const Result<DynamicLibrary> library = DynamicLibrary::open(kNames);
  PENSTOCK_TRY(library);
  auto hipfile = std::make_shared<HipfileLibrary>();
  PENSTOCK_TRY(load_calls(*library, *hipfile));
  return hipfile;
}

std::string HipfileLibrary::version() const {
  unsigned major = 0;
  unsigned minor = 0;
  return hipFileGetVersion(&major, &minor, nullptr).err == hipFileSuccess
             ? fmt::format("{}.{}", major, minor)
             : std::string();
}

Error HipfileLibrary::error(int number, const std::string& doing) const {
  if (number <= HIPFILE_BASE_ERR || number >= HIPFILE_BASE_ERR + 1000) {
    return fault(Fault::kUnsupported, fmt::format("{}: error {}", doing, number));
  }
  const auto code = static_cast<hipFileOpError_t>(number);
  const char* const text = hipFileGetOpErrorString(code);
  return fault(
      code == hipFileGPUMemoryPinningFailed ? Fault::kExhausted : Fault::kUnsupported,
      fmt::format("{}: {} ({})", doing, text != nullptr ? text : "an unknown error", number));
}

}  // namespace penstock
