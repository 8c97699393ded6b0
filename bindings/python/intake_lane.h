#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "swap/swap_engine.h"

namespace penstock::python {

/// Tensors that are filled one after the other, each from one range of bytes or from several in a
/// row. They have their contents from publish() on. Used by one thread.
class IntakeLane {
 public:
  /// The engine lives longer.
  IntakeLane(SwapEngine& engine, ContentWriter writer)
      : engine_(engine), writer_(std::move(writer)) {}

  /// The next elements of `tensor`, converted where it has another type, which converts() allows.
  /// Errors: more than it has; another tensor is not full yet; SwapEngine's and ContentWriter's.
  Result<void> append(TensorId tensor, DType dtype, std::span<const std::byte> bytes);
  /// Its next elements are 0. Errors: as append().
  Result<void> pad(TensorId tensor, std::uint64_t elements);
  /// Blocks until what was given is written. Errors: of a write; a tensor is not full.
  Result<void> drain();
  /// After drain(). Errors: ContentWriter::publish()'s.
  Result<void> publish() { return writer_.publish(); }

 private:
  Result<void> open(TensorId tensor);
  Result<void> give(std::span<const std::byte> bytes);
  Error not_full() const;

  SwapEngine& engine_;
  ContentWriter writer_;
  TensorInfo tensor_;                // the one that is being filled
  TensorId id_{};                    // likewise
  std::uint64_t missing_bytes_ = 0;  // of it; 0: there is none
  std::vector<std::byte> converted_;
};

}  // namespace penstock::python
