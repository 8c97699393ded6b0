#include "swap/transfer/chunk_memory.h"

#include <utility>

#include "alloc/page_source.h"

namespace penstock {

Result<std::unique_ptr<ChunkMemory>> ChunkMemory::make(IoQueue& queue, const ChunkShape& shape) {
  Result<Memory> memory = PageSource::make()->allocate(shape.bytes());
  PENSTOCK_TRY(memory);
  return std::unique_ptr<ChunkMemory>(new ChunkMemory(queue, shape, std::move(memory).value()));
}

ChunkMemory::ChunkMemory(IoQueue& queue, const ChunkShape& shape, Memory memory)
    : queue_(queue), memory_(std::move(memory)), chunks_(shape.chunks) {
  for (std::size_t index = 0; index < chunks_.size(); ++index) {
    chunks_[index].memory = memory_.span().subspan(index * shape.chunk_bytes, shape.chunk_bytes);
  }
  // Without registration (memlock) it costs more CPU time and is as good otherwise.
  registered_ = queue_.register_memory(memory_.span()).has_value();
}

ChunkMemory::~ChunkMemory() {
  if (registered_) {
    queue_.unregister_memory(memory_.span());
  }
}

}  // namespace penstock
