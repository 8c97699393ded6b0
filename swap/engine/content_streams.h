#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "swap/content_reader.h"
#include "swap/content_writer.h"
#include "swap/engine/committer.h"
#include "swap/engine/engine_part.h"
#include "swap/engine/writer.h"

namespace penstock {

/// Contents that are read and written in parts: what ContentReader and ContentWriter ask for.
/// Thread-safe.
class ContentStreams : private EnginePart {
 public:
  ContentStreams(EngineState& state, MemoryBroker& broker, Reader& reader, WriteQueue& writes,
                 Writer& writer, Committer& committer)
      : EnginePart(state),
        broker_(broker),
        reader_(reader),
        writes_(writes),
        writer_(writer),
        committer_(committer) {}

  Result<ContentReader> read(const std::vector<TensorId>& tensors);
  Result<ContentWriter> write();

  /// Room for a tensor's next content.
  struct NewContent {
    std::uint64_t bytes = 0;
    std::uint64_t since = 0;               ///< the tensor's newest generation then
    Lease lease;                           ///< empty: on a drive
    std::shared_ptr<StoredTensor> stored;  ///< null: in the lease
    std::shared_ptr<SwapStore> store;
    std::shared_ptr<void> use;  ///< of the store, while the content is written
  };
  /// Memory where the tensor is to stay in RAM, else on a drive.
  Result<NewContent> reserve(TensorId tensor);
  /// As adopt(), of memory that reserve() gave at the generation `since`.
  Ticket commit(const Lease& lease, std::uint64_t since) { return committer_.commit(lease, since); }
  /// What lies whole on a drive is the tensor's content, if nothing newer is.
  Ticket adopt(TensorId tensor, std::shared_ptr<StoredTensor> stored);

 private:
  struct ReadyContent {
    Lease lease;                          // empty: it lies on a drive
    std::optional<StoredContent> stored;  // nothing: in the lease
    std::shared_ptr<const SwapStore> store;
  };
  Result<ReadyContent> ready(TensorId tensor);

  MemoryBroker& broker_;
  Reader& reader_;
  WriteQueue& writes_;
  Writer& writer_;
  Committer& committer_;
};

}  // namespace penstock
