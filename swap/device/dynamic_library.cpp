#include "swap/device/dynamic_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace penstock {

Result<DynamicLibrary> DynamicLibrary::open(std::span<const char* const> names) {
  std::string why;
  for (const char* const name : names) {
    if (void* const handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); handle != nullptr) {
      return DynamicLibrary(handle, name);
    }
    const char* const said = ::dlerror();
    if (why.empty()) {
      why = said != nullptr ? said : name;
    }
  }
  return fault(Fault::kUnsupported, why);
}

Result<void*> DynamicLibrary::find(const char* symbol) const {
  if (void* const address = ::dlsym(handle_, symbol); address != nullptr) {
    return address;
  }
  return fault(Fault::kUnsupported,
               fmt::format("{} has no {}: its driver is too old", name_, symbol));
}

}  // namespace penstock
