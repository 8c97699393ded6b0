// A recorded trace: whatever is in it, reading ends in events or in one sentence, and what was read
// is an inventory.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "alloc/check.h"
#include "bindings/inventory/recorded_trace.h"
#include "tests/fuzz/sentence.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock;
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const Result<RecordedTrace> trace = parse_trace(text, "trace.jsonl");
  if (trace.has_error()) {
    expect_sentence(trace.error());
    return 0;
  }
  for (const TensorInfo& tensor : traced_inventory(*trace).tensors) {
    PENSTOCK_CHECK(tensor.bytes() > 0, "{} has no bytes", tensor.name);
  }
  return 0;
}
