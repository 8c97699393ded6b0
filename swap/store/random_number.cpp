#include "swap/store/random_number.h"

#include <random>

namespace penstock {

std::uint64_t random_number() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

}  // namespace penstock
