#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "swap/swap_engine.h"
#include "swap/update/moment_layout.h"

namespace penstock::python {

/// Of tensors that are given floats and store them otherwise.
using MomentLayouts = std::map<TensorId, std::shared_ptr<const MomentLayout>>;

/// Tensors that are filled one after the other, each from one range of bytes or from several in a
/// row. They have their contents from publish() on. Used by one thread.
class IntakeLane {
 public:
  /// The engine and the layouts live longer.
  IntakeLane(SwapEngine& engine, ContentWriter writer, const MomentLayouts& layouts)
      : engine_(engine), writer_(std::move(writer)), layouts_(layouts) {}

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
  Result<void> give_encoded(std::span<const std::byte> bytes);
  Error not_full() const;

  SwapEngine& engine_;
  ContentWriter writer_;
  const MomentLayouts& layouts_;
  TensorInfo tensor_;                     // the one that is being filled
  TensorId id_{};                         // likewise
  DType dtype_ = DType::kU8;              // that it is given
  std::uint64_t bytes_ = 0;               // that it is given in all
  std::uint64_t missing_bytes_ = 0;       // of them; 0: there is no tensor
  const MomentLayout* layout_ = nullptr;  // of it, if it has one
  std::vector<std::byte> converted_;
  std::vector<std::byte> floats_;  // with a layout: what it was given so far
  std::vector<std::byte> encoded_;
};

}  // namespace penstock::python
