#include "swap/plan/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "swap/plan/input_file.h"
#include "swap/plan/json_document.h"
#include "swap/plan/natural_order.h"
#include "swap/plan/tensor_json.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
// The format's own limit; whoever claims more would make us read gigabytes of "header".
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;

// Where a tensor's bytes lie behind the header, [begin, end).
struct DataRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::size_t tensor = 0;
};

Error not_safetensors(std::string message) {
  return fault(Fault::kInvalidArgument, std::move(message));
}

Result<DataRange> read_range(const json& entry, const TensorInfo& info, std::uint64_t data_bytes,
                             const std::string& where) {
  const auto found = entry.find("data_offsets");
  if (found == entry.end() || !found->is_array() || found->size() != 2 ||
      !(*found)[0].is_number_unsigned() || !(*found)[1].is_number_unsigned()) {
    return not_safetensors(fmt::format("{} has no data_offsets of two numbers", where));
  }
  const DataRange range{(*found)[0].get<std::uint64_t>(), (*found)[1].get<std::uint64_t>(), 0};
  if (range.begin > range.end || range.end > data_bytes) {
    return not_safetensors(fmt::format(
        "{} lies at [{}, {}) of the {} bytes of data that the file has; it is cut short "
        "or damaged",
        where, range.begin, range.end, data_bytes));
  }
  if (range.end - range.begin != info.bytes()) {
    return not_safetensors(fmt::format("{} has {} bytes of data, but its shape and type need {}",
                                       where, range.end - range.begin, info.bytes()));
  }
  return range;
}

std::optional<Error> find_overlap(std::vector<DataRange>& ranges,
                                  const std::vector<TensorInfo>& tensors,
                                  const std::string& origin) {
  std::erase_if(ranges, [](const DataRange& range) { return range.begin == range.end; });
  std::sort(ranges.begin(), ranges.end(),
            [](const DataRange& a, const DataRange& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) {
      return not_safetensors(fmt::format("{}: the data of {} and {} overlap", origin,
                                         excerpt(tensors[ranges[i - 1].tensor].name),
                                         excerpt(tensors[ranges[i].tensor].name)));
    }
  }
  return std::nullopt;
}

}  // namespace

Result<Inventory> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                           const std::string& origin) {
  const std::string what = "the safetensors header of " + origin;
  Result<json> parsed = parse_json(text, what, Fault::kInvalidArgument);
  if (!parsed) {
    return std::move(parsed).error();
  }
  if (!parsed->is_object()) {
    return not_safetensors(fmt::format("{} is {}, not an object", what, describe_json(*parsed)));
  }
  Inventory inventory;
  std::vector<DataRange> ranges;
  for (const auto& [name, entry] : parsed->items()) {
    if (name == "__metadata__") {
      continue;
    }
    const std::string where = fmt::format("{}: tensor {}", origin, excerpt(name));
    Result<TensorInfo> info = read_tensor_json(name, entry, where);
    if (!info) {
      return std::move(info).error();
    }
    Result<DataRange> range = read_range(entry, *info, data_bytes, where);
    if (!range) {
      return std::move(range).error();
    }
    range->tensor = inventory.tensors.size();
    ranges.push_back(*range);
    inventory.tensors.push_back(std::move(*info));
  }
  if (std::optional<Error> overlap = find_overlap(ranges, inventory.tensors, origin)) {
    return std::move(*overlap);
  }
  std::sort(inventory.tensors.begin(), inventory.tensors.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return natural_less(a.name, b.name); });
  return inventory;
}

Result<Inventory> load_safetensors(const std::string& path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file) {
    return std::move(file).error();
  }
  const auto refuse = [&path](std::string message) {
    Error error = not_safetensors(std::move(message));
    error.path = path;
    return error;
  };
  if (file->size_bytes() < kLengthBytes) {
    return refuse(
        fmt::format("{} has {} bytes; a safetensors file begins with 8 bytes that say how "
                    "long its header is",
                    path, file->size_bytes()));
  }
  Result<std::string> length = file->read(0, kLengthBytes);
  if (!length) {
    return std::move(length).error();
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;) {  // little-endian
    header_bytes = header_bytes << 8 | static_cast<unsigned char>((*length)[i]);
  }
  if (header_bytes > kHeaderBytesMax) {
    return refuse(
        fmt::format("{} says that its header has {} bytes; the format allows {}: it is no "
                    "safetensors file",
                    path, header_bytes, kHeaderBytesMax));
  }
  if (header_bytes > file->size_bytes() - kLengthBytes) {
    return refuse(fmt::format("{} ends at byte {}, within its header of {} bytes: it is cut short",
                              path, file->size_bytes(), header_bytes));
  }
  Result<std::string> header = file->read(kLengthBytes, header_bytes);
  if (!header) {
    return std::move(header).error();
  }
  Result<Inventory> inventory =
      parse_safetensors_header(*header, file->size_bytes() - kLengthBytes - header_bytes, path);
  if (!inventory) {
    return refuse(inventory.error().message);
  }
  return inventory;
}

}  // namespace penstock
