#include "swap/tensor_directory.h"

#include <utility>

#include "alloc/out_of_memory.h"
#include "swap/engine/engine_core.h"
#include "swap/engine/guarded_call.h"
#include "swap/engine/ticket_state.h"
#include "swap/engine/trace_log.h"

namespace penstock {

TensorDirectory::TensorDirectory(std::shared_ptr<EngineCore> core, std::shared_ptr<TraceLog> trace)
    : core_(std::move(core)), trace_(std::move(trace)) {}

/// What has begun goes on, whether there is memory to note it or not.
void TensorDirectory::trace_use(TraceOp op, TensorId tensor) const noexcept {
  trace([&](TraceLog& log) { if_memory_allows([&] { log.use(op, tensor); }); });
}

Result<NamespaceId> TensorDirectory::open_namespace(std::string name,
                                                    std::vector<PathConfig> paths) {
  return guarded([&](EngineCore& core) {
    Result<NamespaceId> space = core.namespaces().open(name, std::move(paths));
    if (space.has_error()) {
      return space;
    }
    trace([&](TraceLog& log) {
      log.open_namespace(*space, name);
      for (const TensorId tensor : core.tensors().tensors(*space)) {  // a durable store's
        if (const auto info = core.tensors().info(tensor); info.has_value()) {
          log.declare(tensor, *space, **info, true);
        }
      }
    });
    return space;
  });
}

Result<void> TensorDirectory::close_namespace(NamespaceId space) {
  return guarded([&](EngineCore& core) -> Result<void> {
    PENSTOCK_TRY(not_in_a_callback("close_namespace()"));
    trace([&](TraceLog& log) { log.close_namespace(space); });
    return core.namespaces().close(space);
  });
}

Result<TensorId> TensorDirectory::declare(NamespaceId space, TensorInfo info) {
  return declare(space, std::move(info), false);
}

Result<TensorId> TensorDirectory::declare_to_put(NamespaceId space, TensorInfo info) {
  return declare(space, std::move(info), true);
}

Result<TensorId> TensorDirectory::declare(NamespaceId space, TensorInfo info, bool to_put) {
  return guarded([&](EngineCore& core) {
    Result<TensorId> tensor = core.tensors().declare(space, info, to_put);
    if (tensor.has_value()) {
      trace([&](TraceLog& log) { log.declare(*tensor, space, info, false); });
    }
    return tensor;
  });
}

Result<void> TensorDirectory::forget(TensorId tensor) {
  return guarded([&](EngineCore& core) {
    Result<void> forgotten = core.tensors().forget(tensor);
    if (forgotten.has_value()) {
      trace([&](TraceLog& log) { log.use(TraceOp::kForget, tensor); });
    }
    return forgotten;
  });
}

Result<void> TensorDirectory::rename(TensorId tensor, std::string name) {
  return guarded([&](EngineCore& core) {
    Result<void> renamed = core.tensors().rename(tensor, name);
    if (renamed.has_value()) {
      trace([&](TraceLog& log) { log.rename(tensor, name); });
    }
    return renamed;
  });
}

Result<void> TensorDirectory::set_trained(TensorId tensor, bool is_trained) {
  return guarded([&](EngineCore& core) { return core.tensors().set_trained(tensor, is_trained); });
}

Result<std::shared_ptr<const TensorInfo>> TensorDirectory::info(TensorId tensor) const {
  return guarded([&](EngineCore& core) { return core.tensors().info(tensor); });
}

Result<TensorState> TensorDirectory::state(TensorId tensor) const {
  return guarded([&](EngineCore& core) { return core.tensors().state(tensor); });
}

std::optional<TensorId> TensorDirectory::find(NamespaceId space, const std::string& name) const {
  return guarded([&](EngineCore& core) { return core.tensors().find(space, name); });
}

std::vector<TensorId> TensorDirectory::tensors(NamespaceId space) const {
  return guarded([&](EngineCore& core) { return core.tensors().tensors(space); });
}

}  // namespace penstock
