#include "bindings/deepspeed/model_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "alloc/excerpt.h"
#include "bindings/deepspeed/torch_archive.h"
#include "bindings/inventory/safetensors_header.h"
#include "swap/plan/natural_order.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 3> kStems{"model", "pytorch_model", "adapter_model"};
constexpr std::string_view kSafetensors = ".safetensors";
constexpr std::string_view kBin = ".bin";

void count(ModelWeights& weights, std::uint64_t elements, std::uint64_t bytes) {
  ++weights.tensors;
  weights.empty_tensors += elements == 0 ? 1 : 0;
  weights.bytes += std::min(bytes, ~weights.bytes);
}

void look_at_safetensors(const std::string& path, ModelWeights& weights) {
  const Result<Checkpoint> header = load_safetensors(path);
  if (header.has_error()) {
    weights.problems.push_back(header.error().message);
    return;
  }
  for (const CheckpointTensor& tensor : header->tensors) {
    count(weights, tensor.info.elements(), tensor.info.bytes());
  }
}

void look_at_archive(const std::string& path, ModelWeights& weights) {
  const Result<TorchArchive> archive = TorchArchive::read(path);
  if (archive.has_error()) {
    weights.problems.push_back(archive.error().message);
    return;
  }
  archive->for_each_tensor([&weights](const std::string&, const ArchivedTensor& tensor) {
    count(weights, tensor.elements(), tensor.bytes());
  });
}

}  // namespace

std::string ModelWeights::stub_sentence() const {
  const std::string file = files.empty() ? "" : excerpt(files.front());
  return fmt::format(
      "{} {} a stub: {} of {} tensors have no elements",
      files.size() > 1 ? fmt::format("{} and {} more", file, files.size() - 1) : file,
      files.size() > 1 ? "are" : "is", empty_tensors, tensors);
}

bool is_weights(std::string_view name) {
  if (!name.ends_with(kSafetensors) && !name.ends_with(kBin)) {
    return false;
  }
  return std::ranges::any_of(kStems, [name](std::string_view stem) {
    return name.starts_with(stem) && (name[stem.size()] == '.' || name[stem.size()] == '-');
  });
}

ModelWeights look_at_weights(const std::string& directory,
                             const std::vector<std::string>& names_there) {
  ModelWeights weights;
  weights.directory = directory;
  std::ranges::copy_if(names_there, std::back_inserter(weights.files), is_weights);
  std::ranges::sort(weights.files, natural_less);
  for (const std::string& name : weights.files) {
    const std::string path = directory + "/" + name;
    if (name.ends_with(kSafetensors)) {
      look_at_safetensors(path, weights);
    } else {
      look_at_archive(path, weights);
    }
  }
  return weights;
}

}  // namespace penstock
