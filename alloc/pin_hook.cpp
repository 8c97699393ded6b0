#include "alloc/pin_hook.h"

#include <sys/mman.h>

#include <cerrno>

namespace penstock {

PinHook memory_lock() {
  return {
      .pin = [](std::span<std::byte> memory) -> Result<void> {
        if (::mlock(memory.data(), memory.size()) != 0) {
          return system_error(errno, "mlock");
        }
        return {};
      },
      .unpin = [](std::span<std::byte> memory) { (void)::munlock(memory.data(), memory.size()); },
  };
}

}  // namespace penstock
