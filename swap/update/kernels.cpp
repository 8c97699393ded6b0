#include "swap/update/kernels.h"

namespace penstock {
namespace {

Instructions detected() noexcept {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") != 0) {
    return Instructions::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
    return Instructions::kAvx2;
  }
#endif
  return Instructions::kAny;
}

}  // namespace

Instructions fastest_instructions() noexcept {
  static const Instructions fastest = detected();
  return fastest;
}

std::string_view to_string(Instructions instructions) noexcept {
  switch (instructions) {
    case Instructions::kAvx2:
      return "avx2";
    case Instructions::kAvx512:
      return "avx512";
    case Instructions::kAny:
      break;
  }
  return "any";
}

}  // namespace penstock
