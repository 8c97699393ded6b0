#include "swap/update/streamed_step.h"

#include <deque>
#include <utility>

namespace penstock {

Result<void> StreamedStep::finish(const Ticket& read, std::size_t chunk, const Update& update) {
  Result<Lease> lease = read.lease();
  PENSTOCK_TRY(lease);
  const std::span<float> states{reinterpret_cast<float*>(lease->data()),
                                static_cast<std::size_t>(lease->bytes() / sizeof(float))};
  PENSTOCK_TRY(update(chunk, states));
  static_cast<void>(engine_.commit(*lease));  // what fails is said by check()
  return engine_.check();
}

Result<void> StreamedStep::run(std::span<const StateChunk> chunks, const Update& update) {
  std::deque<Ticket> reads;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    while (reads.size() <= kReadsAhead && chunk + reads.size() < chunks.size()) {
      reads.push_back(engine_.get(chunks[chunk + reads.size()].tensor, Access::kUpdate));
    }
    const Ticket read = std::move(reads.front());
    reads.pop_front();
    PENSTOCK_TRY(finish(read, chunk, update));
  }
  return {};
}

}  // namespace penstock
