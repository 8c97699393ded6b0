#include "bindings/deepspeed/pickle_reader.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "bindings/deepspeed/pickle_machine.h"

namespace penstock {

Result<PickleDocument> read_pickle(std::vector<std::byte> bytes, const std::string& origin,
                                   const PickleLimits& limits) {
  PickleDocument document(std::move(bytes));
  if (document.byte_count() > limits.bytes) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{}: a pickle of {} bytes is no description of a checkpoint", origin,
                             document.byte_count()));
  }
  PickleMachine machine(document, limits);
  if (const std::optional<std::string> problem = machine.run()) {
    return fault(Fault::kInvalidArgument, fmt::format("{}: {}", origin, *problem));
  }
  return document;
}

}  // namespace penstock
