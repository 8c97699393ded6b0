#include "swap/swap_engine.h"

#include <utility>

#include "swap/swap_engine_core.h"

namespace penstock {

Result<std::unique_ptr<SwapEngine>> SwapEngine::open(SwapEngineOptions options) {
  Result<std::shared_ptr<SwapEngineCore>> core = SwapEngineCore::make(std::move(options));
  if (core.has_error()) {
    return std::move(core).error();
  }
  return std::unique_ptr<SwapEngine>(new SwapEngine(std::move(core).value()));
}

SwapEngine::SwapEngine(std::shared_ptr<SwapEngineCore> core) : core_(std::move(core)) {}

SwapEngine::~SwapEngine() {
  (void)core_->close();
}

Result<NamespaceId> SwapEngine::open_namespace(std::string name, std::vector<PathConfig> paths) {
  return core_->open_namespace(std::move(name), std::move(paths));
}
Result<void> SwapEngine::close_namespace(NamespaceId space) {
  return core_->close_namespace(space);
}
Result<TensorId> SwapEngine::declare(NamespaceId space, TensorInfo info) {
  return core_->declare(space, std::move(info));
}
Result<void> SwapEngine::forget(TensorId tensor) {
  return core_->forget(tensor);
}
Result<void> SwapEngine::rename(TensorId tensor, std::string name) {
  return core_->rename(tensor, std::move(name));
}
Result<TensorInfo> SwapEngine::info(TensorId tensor) const {
  return core_->info(tensor);
}
std::optional<TensorId> SwapEngine::find(NamespaceId space, const std::string& name) const {
  return core_->find(space, name);
}
std::vector<TensorId> SwapEngine::tensors(NamespaceId space) const {
  return core_->tensors(space);
}
Result<Lease> SwapEngine::allocate(TensorId tensor) {
  return core_->allocate(tensor);
}
Ticket SwapEngine::commit(const Lease& lease) {
  return core_->commit(lease);
}
Ticket SwapEngine::put(TensorId tensor, std::span<const std::byte> source) {
  return core_->put(tensor, source);
}
Ticket SwapEngine::get(TensorId tensor, Access access) {
  return core_->get(tensor, access);
}
Ticket SwapEngine::get_into(TensorId tensor, std::span<std::byte> target) {
  return core_->get_into(tensor, target);
}
void SwapEngine::prefetch(std::span<const TensorId> tensors) {
  core_->prefetch(tensors);
}
Result<void> SwapEngine::flush() {
  return core_->flush();
}
Result<void> SwapEngine::check() {
  return core_->check();
}
Result<void> SwapEngine::plan() {
  return core_->plan();
}
Placement SwapEngine::placement() const {
  return core_->placement();
}
SwapStats SwapEngine::stats() const {
  return core_->stats();
}
Result<TensorState> SwapEngine::state(TensorId tensor) const {
  return core_->state(tensor);
}
Result<void> SwapEngine::close() {
  return core_->close();
}

}  // namespace penstock
