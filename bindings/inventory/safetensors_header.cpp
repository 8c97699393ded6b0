#include "bindings/inventory/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/inventory/input_file.h"
#include "bindings/inventory/json_document.h"
#include "bindings/inventory/tensor_json.h"
#include "swap/plan/natural_order.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
// The format's own limit; a file that claims more would make us read gigabytes of "header".
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

// As the safetensors library multiplies: from the left, so that a 0 behind does not help.
bool has_countable_shape(const TensorInfo& info) {
  std::uint64_t elements = 1;
  for (const std::uint64_t side : info.shape) {
    if (side != 0 && elements > ~std::uint64_t{0} / side) {
      return false;
    }
    elements *= side;
  }
  return true;
}

Result<DataRange> read_range(const json& entry, const TensorInfo& info, std::uint64_t data_bytes) {
  const auto found = entry.find("data_offsets");
  if (found == entry.end() || !found->is_array() || found->size() != 2 ||
      !(*found)[0].is_number_unsigned() || !(*found)[1].is_number_unsigned()) {
    return not_safetensors("has no data_offsets of two numbers");
  }
  if (!has_countable_shape(info)) {
    return not_safetensors(
        fmt::format("has a shape whose sides multiply to more than 2^64, which the format does not "
                    "allow in front of a 0 either: [{}]",
                    fmt::join(info.shape, ", ")));
  }
  const DataRange range{(*found)[0].get<std::uint64_t>(), (*found)[1].get<std::uint64_t>(), 0};
  if (range.begin > range.end || range.end > data_bytes) {
    return not_safetensors(fmt::format(
        "lies at [{}, {}) of the {} bytes of data that the file has; it is cut short or damaged",
        range.begin, range.end, data_bytes));
  }
  if (range.end - range.begin != info.bytes()) {
    return not_safetensors(fmt::format("has {} bytes of data, but its shape and type need {}",
                                       range.end - range.begin, info.bytes()));
  }
  return range;
}

// The format leaves no byte unused: the data of the tensors follow one another, from the first byte
// behind the header to the last.
Result<void> find_gap(std::vector<DataRange>& ranges, std::uint64_t data_bytes,
                      const std::vector<CheckpointTensor>& tensors, const std::string& origin) {
  std::ranges::sort(ranges, {},
                    [](const DataRange& range) { return std::pair(range.begin, range.end); });
  const auto name_of = [&tensors](const DataRange& range) {
    return excerpt(tensors[range.tensor].info.name);
  };
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const DataRange& range = ranges[i];
    if (range.begin < end) {
      return not_safetensors(fmt::format("{}: the data of {} and {} overlap", origin,
                                         name_of(ranges[i - 1]), name_of(range)));
    }
    if (range.begin > end) {
      return not_safetensors(fmt::format("{}: the {} bytes of data before {} belong to no tensor",
                                         origin, range.begin - end, name_of(range)));
    }
    end = range.end;
  }
  if (end < data_bytes) {
    return not_safetensors(
        fmt::format("{}: the last {} bytes of data belong to no tensor", origin, data_bytes - end));
  }
  return {};
}

// A map from text to text, or null, as the safetensors library has it.
Result<std::map<std::string, std::string>> read_metadata(const json& header) {
  std::map<std::string, std::string> metadata;
  const auto found = header.find("__metadata__");
  if (found == header.end() || found->is_null()) {
    return metadata;
  }
  if (!found->is_object()) {
    return not_safetensors(fmt::format("__metadata__ is {}, not an object", describe_json(*found)));
  }
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) {
      return not_safetensors(
          fmt::format("__metadata__ has {} under \"{}\", where only texts can be",
                      describe_json(value), excerpt(key)));
    }
    metadata.emplace(key, value.get_ref<const std::string&>());
  }
  return metadata;
}

}  // namespace

std::string safetensors_dtype_name(DType dtype) {
  std::string name(dtype_name(dtype));
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

Result<Checkpoint> parse_safetensors_header(std::string_view text, std::uint64_t data_bytes,
                                            const std::string& origin) {
  const std::string what = "the safetensors header of " + origin;
  if (text.starts_with(kByteOrderMark)) {
    return not_safetensors(
        fmt::format("{} begins with a byte order mark, which the format does not allow", what));
  }
  Result<json> parsed = parse_json(text, what, Fault::kInvalidArgument);
  PENSTOCK_TRY(parsed);
  if (!parsed->is_object()) {
    return not_safetensors(fmt::format("{} is {}, not an object", what, describe_json(*parsed)));
  }
  Checkpoint header;
  header.files.push_back(origin);
  Result<std::map<std::string, std::string>> metadata = read_metadata(*parsed);
  if (!metadata) {
    return not_safetensors(fmt::format("{}: {}", what, metadata.error().message));
  }
  header.metadata = std::move(*metadata);
  std::vector<DataRange> ranges;
  for (const auto& [name, entry] : parsed->items()) {
    if (name == "__metadata__") {
      continue;
    }
    const auto where = [&, &tensor = name] {
      return fmt::format("{}: tensor {}", origin, excerpt(tensor));
    };
    Result<TensorInfo> info = read_tensor_json(name, entry);
    if (!info) {
      return tensor_error(where(), std::move(info).error());
    }
    if (const std::string written = safetensors_dtype_name(info->dtype);
        entry["dtype"].get_ref<const std::string&>() != written) {
      return not_safetensors(fmt::format("{} has the dtype {}, which the format writes {}", where(),
                                         excerpt(entry["dtype"].get_ref<const std::string&>()),
                                         written));
    }
    Result<DataRange> range = read_range(entry, *info, data_bytes);
    if (!range) {
      return tensor_error(where(), std::move(range).error());
    }
    range->tensor = header.tensors.size();
    ranges.push_back(*range);
    header.tensors.push_back({std::move(*info), 0, range->begin});
  }
  PENSTOCK_TRY(find_gap(ranges, data_bytes, header.tensors, origin));
  std::ranges::sort(header.tensors, [](const CheckpointTensor& a, const CheckpointTensor& b) {
    return natural_less(a.info.name, b.info.name);
  });
  return header;
}

Result<Checkpoint> load_safetensors(const std::string& path) {
  Result<InputFile> file = InputFile::open(path);
  PENSTOCK_TRY(file);
  const auto refuse = [&path](std::string message) {
    return fault(Fault::kInvalidArgument, std::move(message), path);
  };
  if (file->size_bytes() < kLengthBytes) {
    return refuse(
        fmt::format("{} has {} bytes; a safetensors file begins with 8 bytes that say how "
                    "long its header is",
                    path, file->size_bytes()));
  }
  Result<std::string> length = file->read(0, kLengthBytes);
  PENSTOCK_TRY(length);
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
  Result<std::string> text = file->read(kLengthBytes, header_bytes);
  PENSTOCK_TRY(text);
  const std::uint64_t data_offset = kLengthBytes + header_bytes;
  Result<Checkpoint> header =
      parse_safetensors_header(*text, file->size_bytes() - data_offset, path);
  if (!header) {
    return refuse(header.error().message);
  }
  for (CheckpointTensor& tensor : header->tensors) {
    tensor.offset += data_offset;
  }
  return header;
}

}  // namespace penstock
