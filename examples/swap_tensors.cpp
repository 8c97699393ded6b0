// Tensors of 128 MiB with 16 MiB of pinned memory: put, read ahead, update, and one error.
//
//   swap_tensors_cpp DIRECTORY   a directory on the drive to swap to; nothing is left there

#include <array>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/deepspeed/config.h"
#include "swap/swap_engine.h"

using penstock::Access;
using penstock::Lease;
using penstock::Result;
using penstock::SwapEngine;
using penstock::TensorId;

namespace {

constexpr std::size_t kLayers = 32;
constexpr std::size_t kBytes = 4 << 20;

// Settings are those of the `penstock` block of a DeepSpeed file. Members of EngineConfig do as
// well.
constexpr const char* kConfig =
    R"({"penstock": {"max_pinned_bytes": "16MiB", "ram_bytes": 0, "integrity": "full"}})";

// PENSTOCK_TRY returns the error of a Result to the caller; nothing is thrown.
Result<std::vector<TensorId>> put_layers(SwapEngine& engine, const std::string& directory) {
  const auto space = engine.open_namespace("model", {{directory, std::nullopt, std::nullopt}});
  PENSTOCK_TRY(space);
  std::vector<TensorId> layers;
  for (std::size_t index = 0; index < kLayers; ++index) {
    const auto layer = engine.declare(
        *space,
        {"layer." + std::to_string(index), penstock::DType::kU8, {kBytes}, penstock::Role::kParam});
    PENSTOCK_TRY(layer);
    const std::vector<std::byte> content(kBytes, std::byte(index));
    PENSTOCK_TRY(engine.put(*layer, content).wait());  // `content` is ours again
    layers.push_back(*layer);
  }
  return layers;
}

// The engine reads the next layers while this one is in use. A lease gives its memory back when it
// goes out of scope.
Result<std::uint64_t> sum(SwapEngine& engine, const std::vector<TensorId>& layers) {
  engine.prefetch(layers);
  std::uint64_t total = 0;
  for (const TensorId layer : layers) {
    const Result<Lease> lease = engine.get(layer).lease();
    PENSTOCK_TRY(lease);
    for (const std::byte byte : lease->span()) {
      total += std::to_integer<std::uint64_t>(byte);
    }
  }
  return total;
}

// A change counts when it is committed. Until then other readers get the former content.
Result<void> update(SwapEngine& engine, TensorId layer) {
  const Result<Lease> lease = engine.get(layer, Access::kUpdate).lease();
  PENSTOCK_TRY(lease);
  for (std::byte& byte : lease->span()) {
    byte = std::byte{100};
  }
  return engine.commit(*lease).wait();
}

Result<void> run(const std::string& directory) {
  const auto config = penstock::parse_config(kConfig, "swap_tensors");
  PENSTOCK_TRY(config);
  penstock::SwapEngineOptions options;
  options.config = config->engine_config();
  const Result<std::unique_ptr<SwapEngine>> engine = SwapEngine::open(std::move(options));
  PENSTOCK_TRY(engine);
  const auto layers = put_layers(**engine, directory);
  PENSTOCK_TRY(layers);
  const auto before = sum(**engine, *layers);
  PENSTOCK_TRY(before);
  PENSTOCK_TRY(update(**engine, layers->front()));
  const auto after = sum(**engine, *layers);
  PENSTOCK_TRY(after);
  std::cout << "sum " << *before << ", after the update " << *after << "\n";

  // An error is a value with a sentence for the user, and the engine goes on.
  const std::array<std::byte, 3> short_content{};
  const Result<void> refused = (*engine)->put(layers->front(), short_content).wait();
  std::cout << "refused: " << (refused.has_error() ? refused.error().message : "nothing") << "\n";
  return (*engine)->close();
}

}  // namespace

int main(int argc, char** argv) {
  const Result<void> done = run(argc > 1 ? argv[1] : ".");
  if (done.has_error()) {
    std::cerr << "swap_tensors: " << done.error().message << "\n";
    return 1;
  }
  return 0;
}
