// A whole safetensors file, length, header and data: its sizes are never believed beyond its end.

#include <cstddef>
#include <cstdint>

#include "alloc/check.h"
#include "swap/plan/inventory.h"
#include "swap/plan/safetensors_header.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/sentence.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock;
  const MemoryFile file({data, bytes});
  const Result<Inventory> inventory = load_safetensors(file.path());
  if (inventory.has_error()) {
    expect_sentence(inventory.error());
    PENSTOCK_CHECK(inventory.error().path == file.path(), "path '{}'", inventory.error().path);
    return 0;
  }
  PENSTOCK_CHECK(inventory->bytes() <= bytes, "{} bytes of tensors in a file of {}",
                 inventory->bytes(), bytes);
  return 0;
}
