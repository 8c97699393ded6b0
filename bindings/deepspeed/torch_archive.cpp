#include "bindings/deepspeed/torch_archive.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "alloc/excerpt.h"
#include "bindings/archive/crc32.h"
#include "bindings/archive/record_check.h"
#include "bindings/deepspeed/pickle_reader.h"
#include "bindings/deepspeed/tensor_walk.h"
#include "bindings/deepspeed/unusable_file.h"
#include "swap/plan/inventory.h"
#include "swap/plan/saturating.h"

namespace penstock {
namespace {

constexpr std::string_view kPickleRecord = "data.pkl";
// PROTO 2, then LONG1 with the magic number of torch.save's older format.
constexpr std::string_view kLegacyStart =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::size_t kDimensionsMax = 64;  // of a tensor of torch

Error bad_archive(const std::string& path, const std::string& why) {
  return unusable_file(path, fmt::format("{}: {}", path, why));
}

/// Looked at before it is opened: opening a device may do things.
Result<void> expect_regular(const std::string& path) {
  struct ::stat facts{};
  if (path.find('\0') != std::string::npos || ::stat(path.c_str(), &facts) != 0) {
    return system_error(errno, fmt::format("cannot look at {}", path), path);
  }
  if (!S_ISREG(facts.st_mode)) {
    return bad_archive(path, "not a regular file");
  }
  return {};
}

Result<void> refuse_legacy(const File& file) {
  std::array<char, kLegacyStart.size()> start{};
  if (file.read_at(0, std::as_writable_bytes(std::span(start))).has_value() &&
      std::string_view(start.data(), start.size()) == kLegacyStart) {
    return bad_archive(
        file.path(),
        "written in torch.save's format of before torch 1.6, which has no records and "
        "no checksums; load it with torch and save it again to have it looked at");
  }
  return {};
}

Result<File> open_archive(const std::string& path) {
  PENSTOCK_TRY(expect_regular(path));
  return File::open(path, File::Access::kRead, DirectMode::kBuffered);
}

Result<std::vector<std::byte>> read_pickle_bytes(const std::string& path,
                                                 const TorchRecords& records) {
  const ZipRecord* record = records.directory.find(kPickleRecord);
  if (record == nullptr) {
    return bad_archive(path, "a ZIP archive without data.pkl, so that torch.save did not write it");
  }
  if (record->bytes > PickleLimits().bytes) {
    return bad_archive(path, "its data.pkl is too large for a description of tensors");
  }
  const Result<File> file = open_archive(path);
  PENSTOCK_TRY(file);
  std::vector<std::byte> bytes(record->bytes);
  PENSTOCK_TRY(file->read_at(record->offset, bytes));
  const std::uint32_t crc = crc32(0, bytes);
  if (records.has_checksums && crc != record->crc) {
    return bad_archive(path, "data.pkl is damaged: " + describe_wrong_crc(crc, record->crc));
  }
  return bytes;
}

/// One element behind the last of a tensor. An expanded tensor, of stride 0, has few elements.
std::uint64_t end_of(const ArchivedTensor& tensor, const std::vector<std::uint64_t>& strides) {
  if (tensor.elements() == 0) {
    return 0;
  }
  std::uint64_t end = add_saturating(tensor.offset, 1);
  for (std::size_t at = 0; at < strides.size(); ++at) {
    end = add_saturating(end, multiply_saturating(tensor.shape[at] - 1, strides[at]));
  }
  return end;
}

}  // namespace

std::uint64_t element_count(const std::vector<std::uint64_t>& shape) noexcept {
  std::uint64_t elements = 1;
  for (const std::uint64_t size : shape) {
    elements = multiply_saturating(elements, size);
  }
  return elements;
}

std::uint64_t element_bytes(std::uint64_t elements, std::uint32_t bits) noexcept {
  const std::uint64_t whole = multiply_saturating(elements / 8, bits);
  const std::uint64_t rest = (elements % 8 * bits + 7) / 8;
  return whole > ~rest ? ~std::uint64_t{0} : whole + rest;
}

std::uint64_t ArchivedTensor::elements() const noexcept {
  return element_count(shape);
}
std::uint64_t ArchivedTensor::bytes() const noexcept {
  return element_bytes(elements(), bits);
}

Result<TorchRecords> read_torch_records(const std::string& path) {
  const Result<File> file = open_archive(path);
  PENSTOCK_TRY(file);
  PENSTOCK_TRY(refuse_legacy(*file));
  Result<ZipDirectory> directory = read_zip_directory(*file);
  PENSTOCK_TRY(directory);
  TorchRecords records{std::move(*directory)};
  // Records whose CRC-32 is really 0 are one in four billion; all of an archive's are not.
  records.has_checksums = std::ranges::any_of(
      records.directory.records, [](const ZipRecord& record) { return record.crc != 0; });
  return records;
}

Result<TorchArchive> TorchArchive::read(const std::string& path) {
  Result<TorchRecords> records = read_torch_records(path);
  PENSTOCK_TRY(records);
  return read(path, std::move(*records));
}

Result<TorchArchive> TorchArchive::read(const std::string& path, TorchRecords records) {
  Result<std::vector<std::byte>> bytes = read_pickle_bytes(path, records);
  PENSTOCK_TRY(bytes);
  Result<PickleDocument> pickle = read_pickle(std::move(*bytes), path);
  if (pickle.has_error()) {
    Error error = pickle.error();
    error.path = path;
    return error;
  }
  return TorchArchive(path, std::move(records), std::move(*pickle));
}

TorchArchive::TorchArchive(std::string path, TorchRecords records, PickleDocument pickle)
    : path_(std::move(path)),
      records_(std::make_unique<TorchRecords>(std::move(records))),
      pickle_(std::make_unique<PickleDocument>(std::move(pickle))) {
  for (const ZipRecord& record : records_->directory.records) {
    by_name_.emplace(record.name, &record);
  }
}

/// ("storage", torch.FloatStorage, "7", "cpu", 1024), as torch's persistent_id() makes it.
bool TorchArchive::read_storage(PickleRef value, ArchivedTensor& tensor) const {
  const PickleDocument& pickle = *pickle_;
  const PickleValue& id = pickle[pickle[value].arguments];
  if (pickle[value].kind != PickleKind::kPersistent || id.kind != PickleKind::kTuple ||
      id.items.size() < 5 || pickle[id.items[1]].kind != PickleKind::kGlobal) {
    return false;
  }
  const std::optional<std::int64_t> elements = integer(id.items[4]);
  const std::string_view key = text(id.items[2]);
  if (!elements || *elements < 0 || key.empty()) {
    return false;
  }
  const ElementType type = storage_type(pickle[id.items[1]].text);
  tensor.dtype = type.name;
  tensor.bits = type.bits;
  tensor.record = fmt::format("data/{}", excerpt(key));
  tensor.record_bytes = element_bytes(static_cast<std::uint64_t>(*elements), type.bits);
  return true;
}

std::optional<ArchivedTensor> TorchArchive::tensor(PickleRef value) const {
  const std::optional<TensorCall> call = find_tensor_call(*pickle_, value);
  ArchivedTensor tensor;
  if (!call || !read_storage(call->storage, tensor)) {
    return std::nullopt;
  }
  std::optional<std::vector<std::uint64_t>> sizes = shape(call->size);
  const std::optional<std::vector<std::uint64_t>> strides = shape(call->stride);
  const std::optional<std::int64_t> offset = integer(call->offset);
  if (!sizes || !offset || *offset < 0) {
    return std::nullopt;
  }
  tensor.shape = std::move(*sizes);
  tensor.offset = static_cast<std::uint64_t>(*offset);
  const bool has_strides = strides && strides->size() == tensor.shape.size();
  tensor.end = has_strides ? end_of(tensor, *strides) : ~std::uint64_t{0};
  if (call->dtype != 0) {  // of a storage without a type of its own
    const ElementType type = element_type((*pickle_)[call->dtype].text);
    tensor.dtype = type.name;
    tensor.bits = type.bits;
  }
  return tensor;
}

std::optional<std::int64_t> TorchArchive::integer(PickleRef value) const {
  const PickleValue& number = (*pickle_)[value];
  return number.kind == PickleKind::kInteger ? std::optional(number.integer) : std::nullopt;
}

std::optional<double> TorchArchive::number(PickleRef value) const {
  const PickleValue& plain = (*pickle_)[value];
  if (plain.kind == PickleKind::kInteger) {
    return static_cast<double>(plain.integer);
  }
  if (plain.kind == PickleKind::kFloat) {
    return plain.number;
  }
  const std::optional<ArchivedTensor> held = tensor(value);
  if (!held || held->elements() != 1 || !problem(*held).empty()) {
    return std::nullopt;
  }
  const Result<File> file = open_archive(path_);
  std::array<std::byte, 8> bytes{};
  const std::size_t count = std::min<std::size_t>(held->bits / 8, bytes.size());
  const std::uint64_t at = by_name_.at(held->record)->offset + held->offset * count;
  if (file.has_error() || file->read_at(at, std::span(bytes).first(count)).has_error()) {
    return std::nullopt;
  }
  if (held->dtype == "f32") {
    return std::bit_cast<float>(std::array{bytes[0], bytes[1], bytes[2], bytes[3]});
  }
  if (held->dtype == "f64") {
    return std::bit_cast<double>(bytes);
  }
  return held->dtype == "i64"
             ? std::optional(static_cast<double>(std::bit_cast<std::int64_t>(bytes)))
             : std::nullopt;
}

std::string_view TorchArchive::text(PickleRef value) const {
  const PickleValue& held = (*pickle_)[value];
  return held.kind == PickleKind::kText ? held.text : std::string_view{};
}

std::optional<std::vector<std::uint64_t>> TorchArchive::shape(PickleRef value) const {
  const PickleDocument& pickle = *pickle_;
  if (pickle.called(value) == "torch.Size") {
    const PickleValue& arguments = pickle[pickle[value].arguments];
    value = arguments.items.size() == 1 ? arguments.items[0] : 0;
  }
  const PickleValue& sizes = pickle[value];
  if ((sizes.kind != PickleKind::kTuple && sizes.kind != PickleKind::kList) ||
      sizes.items.size() > kDimensionsMax) {
    return std::nullopt;
  }
  std::vector<std::uint64_t> shape;
  for (const PickleRef item : sizes.items) {
    const std::optional<std::int64_t> size = integer(item);
    if (!size || *size < 0) {
      return std::nullopt;
    }
    shape.push_back(static_cast<std::uint64_t>(*size));
  }
  return shape;
}

PickleRef TorchArchive::find(std::initializer_list<std::string_view> keys) const {
  PickleRef value = pickle_->root();
  for (const std::string_view key : keys) {
    value = pickle_->find(value, key);
  }
  return value;
}

void TorchArchive::for_each_tensor(
    const std::function<void(const std::string&, const ArchivedTensor&)>& visit) const {
  TensorWalk walk(*pickle_);
  while (const std::optional<PickleRef> value = walk.next()) {
    if (const std::optional<ArchivedTensor> found = tensor(*value)) {
      visit(walk.place(*value), *found);
    }
  }
}

std::string TorchArchive::problem(const ArchivedTensor& tensor) const {
  const auto record = by_name_.find(tensor.record);
  if (record == by_name_.end()) {
    return fmt::format("its record {} is missing", tensor.record);
  }
  const std::uint64_t has_bytes = record->second->bytes;
  const std::uint64_t claimed =
      std::max(tensor.record_bytes, element_bytes(tensor.end, tensor.bits));
  if (claimed > has_bytes) {
    return fmt::format("it claims {} bytes of record {}, which has {}", claimed, tensor.record,
                       has_bytes);
  }
  return {};
}

}  // namespace penstock
