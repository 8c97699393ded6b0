#include "swap/store/swap_store.h"

#include <fmt/format.h>

#include <utility>

#include "swap/store/random_number.h"

namespace penstock {

SwapStore::SwapStore(FileSystem& system)
    : opening_(random_number()), drives_(std::make_shared<StoreDrives>(system)) {}

Result<std::unique_ptr<SwapStore>> SwapStore::open_scratch(const std::vector<PathConfig>& paths,
                                                           FileSystem& system) {
  if (paths.empty()) {
    return no_paths();
  }
  std::unique_ptr<SwapStore> store(new SwapStore(system));
  for (const PathConfig& config : paths) {
    Result<File> file = system.create_scratch(config.path, DirectMode::kAuto);
    PENSTOCK_TRY(file);
    store->drives_->add(std::move(file).value(), config);
  }
  return store;
}

Result<StoredTensor> SwapStore::reserve(std::uint64_t tensor, std::uint64_t generation,
                                        std::uint64_t bytes, std::span<const std::uint32_t> avoid) {
  StoredTensor stored;
  stored.identity.store = opening_;
  stored.identity.tensor = tensor;
  stored.identity.generation = generation;
  stored.identity.bytes = bytes;
  const Result<StoreDrives::Space> space = drives_->reserve(stored.layout_bytes(), avoid);
  PENSTOCK_TRY(space);
  stored.drive = space->drive;
  stored.extent = space->extent;
  return stored;
}

Result<void> SwapStore::check_readable(const StoredTensor& stored,
                                       const std::string& tensor_name) const {
  Result<void> present = drives_->check_present(stored.drive, stored.extent);
  if (present.has_value()) {
    return {};
  }
  Error error = std::move(present).error();
  error.message = fmt::format("tensor '{}' cannot be read: {}", tensor_name, error.message);
  error.tensor = tensor_name;
  return error;
}

Result<void> SwapStore::stage(const TensorInfo& /*info*/, const HeldExtent& /*content*/) {
  return {};
}
void SwapStore::stage_removal(const std::string& /*name*/) {}
void SwapStore::stage_name(const std::string& /*from*/, const std::string& /*to*/) {}

Error SwapStore::no_paths() {
  return fault(Fault::kConfiguration,
               "nothing says where to swap to: give nvme_path in offload_param or "
               "offload_optimizer, or penstock.paths");
}

}  // namespace penstock
