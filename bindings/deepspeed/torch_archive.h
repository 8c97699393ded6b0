#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "alloc/result.h"
#include "bindings/archive/zip_directory.h"
#include "bindings/deepspeed/pickle_value.h"

namespace penstock {

/// The table of records of a file that torch.save wrote.
struct TorchRecords {
  ZipDirectory directory;
  /// False where torch.save was set to compute none: then every CRC-32 in the table is 0.
  bool has_checksums = true;
};

/// `path` may be a symbolic link; it is a regular file. Errors: errno with the path;
/// Fault::kInvalidArgument: no regular file, torch.save's format of before 1.6, no whole archive.
Result<TorchRecords> read_torch_records(const std::string& path);

/// A tensor as a file of torch.save describes it.
struct ArchivedTensor {
  std::string dtype;       ///< `bf16`; torch's own name for what penstock has no type for
  std::uint32_t bits = 0;  ///< of an element; 0 where the type is not known
  std::vector<std::uint64_t> shape;
  std::string record;              ///< `data/7`
  std::uint64_t offset = 0;        ///< of its first element there
  std::uint64_t end = 0;           ///< one element behind its last one there; 0 where it has none
  std::uint64_t record_bytes = 0;  ///< that its storage needs

  std::uint64_t elements() const noexcept;
  std::uint64_t bytes() const noexcept;
};

/// What `shape` multiplies to, or the largest number there is where that is less.
std::uint64_t element_count(const std::vector<std::uint64_t>& shape) noexcept;
/// Bytes of so many elements; likewise.
std::uint64_t element_bytes(std::uint64_t elements, std::uint32_t bits) noexcept;

/// A file that torch.save wrote, with the description of what is in it; no tensor's bytes.
class TorchArchive {
 public:
  /// Errors: as read_torch_records(); Fault::kInvalidArgument: the pickle in it is damaged or none.
  static Result<TorchArchive> read(const std::string& path);
  static Result<TorchArchive> read(const std::string& path, TorchRecords records);

  const std::string& path() const noexcept { return path_; }
  const ZipDirectory& directory() const noexcept { return records_->directory; }
  const PickleDocument& pickle() const noexcept { return *pickle_; }
  bool has_checksums() const noexcept { return records_->has_checksums; }

  /// Nothing where the value is no tensor.
  std::optional<ArchivedTensor> tensor(PickleRef value) const;
  /// A number, or a tensor that has one element of a type that counts things.
  std::optional<double> number(PickleRef value) const;
  std::optional<std::int64_t> integer(PickleRef value) const;
  /// Empty where it is no text.
  std::string_view text(PickleRef value) const;
  /// A torch.Size, tuple or list of sizes.
  std::optional<std::vector<std::uint64_t>> shape(PickleRef value) const;
  /// The value behind keys, one below the other; 0 (None) where there is none.
  PickleRef find(std::initializer_list<std::string_view> keys) const;

  /// Calls `visit` with every tensor and where it stands, `module.layers.0.weight` or
  /// `optimizer_state_dict.fp32_flat_groups[3]`. One that stands in several places comes once.
  void for_each_tensor(
      const std::function<void(const std::string& place, const ArchivedTensor&)>& visit) const;

  /// What is wrong with a tensor: its storage has no record, or it reaches beyond its end.
  /// Empty: nothing.
  std::string problem(const ArchivedTensor& tensor) const;

 private:
  TorchArchive(std::string path, TorchRecords records, PickleDocument pickle);
  bool read_storage(PickleRef value, ArchivedTensor& tensor) const;

  std::string path_;
  // Views point into both, so they stay where they are.
  std::unique_ptr<TorchRecords> records_;
  std::unique_ptr<PickleDocument> pickle_;
  std::unordered_map<std::string_view, const ZipRecord*> by_name_;
};

}  // namespace penstock
