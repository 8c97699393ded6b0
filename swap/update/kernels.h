#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

/// What the kernels of an optimizer's step are compiled for.
enum class Instructions : std::uint8_t { kAny, kAvx2, kAvx512 };

/// The fastest that this machine runs. kAny has no fused multiply-add in hardware, so it is slow.
Instructions fastest_instructions() noexcept;
/// "any", "avx2", "avx512".
std::string_view to_string(Instructions instructions) noexcept;

/// One function for each set of instructions: the compiler makes vectors of one loop, which is what
/// a library of vector types would write by hand. `Body::run<kWidth>(count, arguments...)` is
/// always inlined; kWidth is how many elements one instruction takes: scalar code, which a
/// runtime's op has for what remains behind the last whole vector, may round otherwise.
template <typename Body, typename... Arguments>
class Kernels {
 public:
  using Function = void (*)(std::size_t count, Arguments... arguments);

  static Function fastest() noexcept {
    switch (fastest_instructions()) {
#ifdef __x86_64__
      case Instructions::kAvx512:
        return run_avx512;
      case Instructions::kAvx2:
        return run_avx2;
#endif
      default:
        return run_anywhere;
    }
  }

 private:
  static void run_anywhere(std::size_t count, Arguments... arguments) {
    Body::template run<4>(count, arguments...);
  }
#ifdef __x86_64__
  [[gnu::target("avx2,fma")]] static void run_avx2(std::size_t count, Arguments... arguments) {
    Body::template run<8>(count, arguments...);
  }
  [[gnu::target("avx512f,avx2,fma")]] static void run_avx512(std::size_t count,
                                                             Arguments... arguments) {
    Body::template run<16>(count, arguments...);
  }
#endif
};

}  // namespace penstock
