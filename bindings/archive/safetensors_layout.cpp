#include "bindings/archive/safetensors_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "alloc/bytes.h"
#include "bindings/inventory/safetensors_header.h"
#include "swap/store/wire.h"

namespace penstock {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Metadata = std::map<std::string, std::string>;

// The format's own limit.
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
constexpr std::uint64_t kLengthBytes = 8;

void sort_for_writing(const std::vector<TensorInfo>& tensors, std::vector<std::size_t>& order) {
  const auto rank = [&tensors](std::size_t index) {
    const TensorInfo& tensor = tensors[index];
    const bool whole = is_aligned(tensor.bytes(), kBlockBytes);
    return std::pair(!whole, whole ? 0 : -static_cast<int>(dtype_bytes(tensor.dtype)));
  };
  std::ranges::stable_sort(order, {}, rank);
}

Result<SafetensorsFile> lay_out(const std::vector<TensorInfo>& tensors,
                                std::vector<std::size_t> order, const Metadata& metadata,
                                std::string name) {
  sort_for_writing(tensors, order);
  ordered_json header = ordered_json::object();
  // Appended: to look for a name, which is new here, this kind of JSON goes through all before it.
  auto& fields = header.get_ref<ordered_json::object_t&>();
  // Without it transformers takes the file for one that no framework has written.
  header["__metadata__"] = metadata.empty() ? Metadata{{"format", "pt"}} : metadata;
  std::uint64_t offset = 0;
  for (const std::size_t index : order) {
    const TensorInfo& tensor = tensors[index];
    fields.emplace_back(tensor.name,
                        ordered_json{{"dtype", safetensors_dtype_name(tensor.dtype)},
                                     {"shape", tensor.shape},
                                     {"data_offsets", {offset, offset + tensor.bytes()}}});
    offset += tensor.bytes();
  }
  std::string text = header.dump();
  text.resize(align_up(kLengthBytes + text.size(), kBlockBytes) - kLengthBytes, ' ');
  if (text.size() > kHeaderBytesMax) {
    return fault(
        Fault::kUnsupported,
        fmt::format("{} tensors in one file need a header of {}, and the format allows "
                    "{}: export to a directory, in shards",
                    order.size(), format_bytes(text.size()), format_bytes(kHeaderBytesMax)));
  }
  std::vector<std::byte> length;
  WireWriter(length).put_u64(text.size());
  SafetensorsFile file;
  file.name = std::move(name);
  file.header.assign(reinterpret_cast<const char*>(length.data()), length.size());
  file.header += text;
  file.tensors = std::move(order);
  file.bytes = file.header.size() + offset;
  return file;
}

std::vector<std::vector<std::size_t>> divide(const std::vector<TensorInfo>& tensors,
                                             std::uint64_t max_bytes) {
  std::vector<std::vector<std::size_t>> shards;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (shards.empty() || (bytes > 0 && bytes + tensors[i].bytes() > max_bytes)) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(i);
    bytes += tensors[i].bytes();
  }
  return shards;
}

}  // namespace

Result<SafetensorsLayout> lay_out_file(const std::vector<TensorInfo>& tensors,
                                       const Metadata& metadata, const std::string& name) {
  std::vector<std::size_t> order(tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  Result<SafetensorsFile> file = lay_out(tensors, std::move(order), metadata, name);
  PENSTOCK_TRY(file);
  SafetensorsLayout layout;
  layout.files.push_back(std::move(file).value());
  return layout;
}

Result<SafetensorsLayout> lay_out_shards(const std::vector<TensorInfo>& tensors,
                                         const Metadata& metadata, std::uint64_t max_bytes) {
  const std::vector<std::vector<std::size_t>> shards = divide(tensors, max_bytes);
  SafetensorsLayout layout;
  ordered_json weight_map = ordered_json::object();
  auto& shard_of = weight_map.get_ref<ordered_json::object_t&>();
  std::uint64_t total_bytes = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    Result<SafetensorsFile> file = lay_out(tensors, shards[i], metadata, name);
    PENSTOCK_TRY(file);
    for (const std::size_t index : shards[i]) {
      shard_of.emplace_back(tensors[index].name, name);
      total_bytes += tensors[index].bytes();
    }
    layout.files.push_back(std::move(file).value());
  }
  const ordered_json index{{"metadata", {{"total_size", total_bytes}}},
                           {"weight_map", std::move(weight_map)}};
  layout.index = index.dump(2) + "\n";
  return layout;
}

}  // namespace penstock
