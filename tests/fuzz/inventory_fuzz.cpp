// seeds: bench/data/inventories/*.json
//
// An inventory in JSON: what is accepted has names, sizes that add up, and is its own round trip.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "alloc/check.h"
#include "bindings/inventory/inventory_file.h"
#include "swap/plan/inventory.h"
#include "tests/fuzz/sentence.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const Result<Inventory> inventory = parse_inventory(text, "model.json");
  if (inventory.has_error()) {
    expect_sentence(inventory.error());
    return 0;
  }
  PENSTOCK_CHECK(!inventory->tensors.empty(), "{}", "an inventory without tensors was accepted");
  std::unordered_set<std::string_view> names;
  std::uint64_t sum = 0;
  for (const TensorInfo& tensor : inventory->tensors) {
    PENSTOCK_CHECK(!tensor.name.empty() && names.insert(tensor.name).second, "name '{}'",
                   tensor.name);
    PENSTOCK_CHECK(!__builtin_add_overflow(sum, tensor.bytes(), &sum), "{} wraps", tensor.name);
    PENSTOCK_CHECK(parse_dtype(dtype_name(tensor.dtype)).value() == tensor.dtype, "dtype of {}",
                   tensor.name);
    PENSTOCK_CHECK(parse_role(role_name(tensor.role)).value() == tensor.role, "role of {}",
                   tensor.name);
  }
  PENSTOCK_CHECK(sum == inventory->bytes(), "{} instead of {}", inventory->bytes(), sum);
  return 0;
}
