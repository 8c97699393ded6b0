#pragma once

#include <cstdint>
#include <vector>

#include "swap/schedule/tensor_id.h"

namespace penstock::test {

/// Tensors by their numbers.
inline std::vector<TensorId> tensors(std::initializer_list<std::uint64_t> numbers) {
  std::vector<TensorId> ids;
  for (const std::uint64_t number : numbers) {
    ids.push_back(TensorId{number});
  }
  return ids;
}

}  // namespace penstock::test
