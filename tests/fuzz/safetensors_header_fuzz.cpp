// A whole safetensors file, length, header and data: its sizes are never believed beyond its end.

#include <cstddef>
#include <cstdint>

#include "alloc/check.h"
#include "bindings/inventory/safetensors_header.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/sentence.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock;
  const MemoryFile file({data, bytes});
  const Result<Checkpoint> checkpoint = load_safetensors(file.path());
  if (checkpoint.has_error()) {
    expect_sentence(checkpoint.error());
    PENSTOCK_CHECK(checkpoint.error().path == file.path(), "path '{}'", checkpoint.error().path);
    return 0;
  }
  PENSTOCK_CHECK(checkpoint->inventory().bytes() <= bytes, "{} bytes of tensors in a file of {}",
                 checkpoint->inventory().bytes(), bytes);
  return 0;
}
