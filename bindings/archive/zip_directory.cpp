#include "bindings/archive/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "alloc/excerpt.h"
#include "swap/store/wire.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "ZIP's numbers are little-endian");

constexpr std::uint32_t kHeaderMagic = 0x04034b50;
constexpr std::uint32_t kDescriptorMagic = 0x08074b50;
constexpr std::uint32_t kEntryMagic = 0x02014b50;
constexpr std::uint32_t kEndMagic = 0x06054b50;
constexpr std::uint32_t kEnd64Magic = 0x06064b50;
constexpr std::uint32_t kLocatorMagic = 0x07064b50;
constexpr std::size_t kHeaderBytes = 30;
constexpr std::size_t kEntryBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::uint64_t kCommentBytesMax = 0xffff;
constexpr std::uint64_t kEntryCrcOffset = 16;
constexpr std::uint64_t kHeaderCrcOffset = 14;
constexpr std::uint64_t kDescriptorCrcOffset = 4;
constexpr std::uint16_t kZip64Extra = 0x0001;
constexpr std::uint16_t kHasDescriptor = 1U << 3U;
// Of a record that is as it stands: how it might have been packed, and that names are UTF-8.
constexpr std::uint16_t kPlainFlags = kHasDescriptor | 3U << 1U | 1U << 11U;
constexpr std::uint32_t kIsFolder = 1U << 4U;  // of the attributes, as DOS has them
constexpr std::uint32_t kIn64 = 0xffffffff;    // the value stands in the ZIP64 extra field
// A record has an entry of a hundred bytes or so: this is for millions of them.
constexpr std::uint64_t kDirectoryBytesMax = std::uint64_t{1} << 30U;

/// Where the central directory lies.
struct Place {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t entries = 0;
};

class Reader {
 public:
  explicit Reader(const File& file) : file_(file) {}
  Result<ZipDirectory> read();

 private:
  Error bad(const std::string& what) const;
  Error end_is_damaged() const { return bad("the end of this ZIP archive is damaged"); }
  Result<std::vector<std::byte>> bytes_at(std::uint64_t offset, std::uint64_t bytes) const;
  Result<Place> find_directory() const;
  Result<Place> agreed_place(const Place& place, std::uint64_t end_offset) const;
  Result<std::optional<Place>> find_directory64(std::uint64_t end_offset) const;
  Result<ZipRecord> read_entry(WireReader& fields);
  Result<void> take_name(std::string name, ZipRecord& record);
  Result<void> read_sizes64(std::span<const std::byte> extra, ZipRecord& record,
                            std::uint64_t& packed_bytes) const;
  Result<void> read_header(ZipRecord& record, std::uint64_t directory_offset) const;
  Result<void> check(std::vector<ZipRecord>& records) const;

  const File& file_;
  std::uint64_t file_bytes_ = 0;
  std::optional<std::string> folder_;  // around all records, with its '/'
};

Error Reader::bad(const std::string& what) const {
  return fault(Fault::kInvalidArgument, fmt::format("{}: {}", file_.path(), what), file_.path());
}

Result<std::vector<std::byte>> Reader::bytes_at(std::uint64_t offset, std::uint64_t bytes) const {
  std::vector<std::byte> read(bytes);
  PENSTOCK_TRY(file_.read_at(offset, read));
  return read;
}

Result<ZipDirectory> Reader::read() {
  const Result<std::uint64_t> size = file_.size_bytes();
  PENSTOCK_TRY(size);
  file_bytes_ = *size;
  const Result<Place> place = find_directory();
  PENSTOCK_TRY(place);
  if (place->offset > file_bytes_ || place->bytes > file_bytes_ - place->offset ||
      place->bytes > kDirectoryBytesMax || place->entries > place->bytes / kEntryBytes) {
    return bad("its table of records does not lie within the file; it is cut short or damaged");
  }
  const Result<std::vector<std::byte>> directory = bytes_at(place->offset, place->bytes);
  PENSTOCK_TRY(directory);
  ZipDirectory read;
  read.file_bytes = file_bytes_;
  WireReader fields(*directory);
  for (std::uint64_t entry = 0; entry < place->entries; ++entry) {
    const std::uint64_t offset = place->offset + place->bytes - fields.left();
    Result<ZipRecord> record = read_entry(fields);
    PENSTOCK_TRY(record);
    record->directory_offset = offset;
    PENSTOCK_TRY(read_header(*record, place->offset));
    read.records.push_back(std::move(*record));
  }
  PENSTOCK_TRY(check(read.records));
  const bool has_crcs = std::ranges::any_of(read.records, &ZipRecord::crc);
  for (ZipRecord& record : read.records) {
    record.has_crc = has_crcs;
  }
  return read;
}

/// The end of an archive is a fixed part and a comment, which torch leaves empty.
Result<Place> Reader::find_directory() const {
  const std::uint64_t searched = std::min(file_bytes_, kEndBytes + kCommentBytesMax);
  const Result<std::vector<std::byte>> tail = bytes_at(file_bytes_ - searched, searched);
  PENSTOCK_TRY(tail);
  for (std::size_t at = searched < kEndBytes ? 0 : searched - kEndBytes + 1; at-- > 0;) {
    WireReader fields{std::span(*tail).subspan(at)};
    if (fields.take_u32() != kEndMagic) {
      continue;
    }
    const std::uint32_t disks = fields.take_u32();  // this one's number, and the table's
    const std::uint64_t entries_here = fields.take_u16();
    Place place;
    place.entries = fields.take_u16();
    place.bytes = fields.take_u32();
    place.offset = fields.take_u32();
    if (disks != 0 || entries_here != place.entries) {
      return end_is_damaged();
    }
    return agreed_place(place, file_bytes_ - searched + at);
  }
  return bad(
      "no ZIP archive, which torch.save writes since 1.6; it is cut short, older or something "
      "else");
}

/// torch writes the longer end beside the short one whatever the size, and reads it where it is
/// there. What does not fit into the short one is as large as can be there.
Result<Place> Reader::agreed_place(const Place& place, std::uint64_t end_offset) const {
  const Result<std::optional<Place>> place64 = find_directory64(end_offset);
  PENSTOCK_TRY(place64);
  const bool is_whole = place.entries != 0xffff && place.bytes != kIn64 && place.offset != kIn64;
  if (!*place64) {
    return is_whole ? Result<Place>(place) : Result<Place>(end_is_damaged());
  }
  const Place& said = **place64;
  if ((place.entries != 0xffff && place.entries != said.entries) ||
      (place.bytes != kIn64 && place.bytes != said.bytes) ||
      (place.offset != kIn64 && place.offset != said.offset)) {
    return end_is_damaged();
  }
  return said;
}

/// Nothing where there is none.
Result<std::optional<Place>> Reader::find_directory64(std::uint64_t end_offset) const {
  if (end_offset < kLocatorBytes) {
    return std::optional<Place>();
  }
  const Result<std::vector<std::byte>> locator =
      bytes_at(end_offset - kLocatorBytes, kLocatorBytes);
  PENSTOCK_TRY(locator);
  WireReader place_of_end(*locator);
  if (place_of_end.take_u32() != kLocatorMagic) {
    return std::optional<Place>();
  }
  const auto disk = place_of_end.take_u32();
  const auto offset = place_of_end.take_u64();
  const auto disks = place_of_end.take_u32();
  if (offset > end_offset || end_offset - offset < kEnd64Bytes + kLocatorBytes || disk != 0 ||
      disks != 1) {
    return end_is_damaged();
  }
  const Result<std::vector<std::byte>> end = bytes_at(offset, kEnd64Bytes);
  PENSTOCK_TRY(end);
  WireReader fields(*end);
  if (fields.take_u32() != kEnd64Magic) {
    return end_is_damaged();
  }
  const auto bytes = fields.take_u64();  // of the rest
  fields.take_bytes(4);
  const auto numbers = fields.take_u64();  // of this disk, and of the table's
  const auto entries_here = fields.take_u64();
  Place place;
  place.entries = fields.take_u64();
  place.bytes = fields.take_u64();
  place.offset = fields.take_u64();
  if (bytes != end_offset - kLocatorBytes - offset - 12 || numbers != 0 ||
      entries_here != place.entries) {
    return end_is_damaged();
  }
  return std::optional(place);
}

/// One entry of the central directory; what it does not say comes from the local header.
Result<ZipRecord> Reader::read_entry(WireReader& fields) {
  if (fields.left() < kEntryBytes || fields.take_u32() != kEntryMagic) {
    return bad("its table of records is damaged");
  }
  fields.take_bytes(4);
  const auto flags = fields.take_u16();
  const auto method = fields.take_u16();
  fields.take_bytes(4);
  ZipRecord record;
  record.crc = fields.take_u32();
  std::uint64_t packed_bytes = fields.take_u32();
  record.bytes = fields.take_u32();
  const auto name_bytes = fields.take_u16();
  const auto extra_bytes = fields.take_u16();
  const auto comment_bytes = fields.take_u16();
  const auto disk = fields.take_u16();
  fields.take_bytes(2);
  const auto attributes = fields.take_u32();
  record.header_offset = fields.take_u32();
  record.has_descriptor = (flags & kHasDescriptor) != 0;
  if (fields.left() < std::size_t{name_bytes} + extra_bytes + comment_bytes) {
    return bad("its table of records is damaged");
  }
  const std::span<const std::byte> name = fields.take_bytes(name_bytes);
  PENSTOCK_TRY(take_name({reinterpret_cast<const char*>(name.data()), name.size()}, record));
  PENSTOCK_TRY(read_sizes64(fields.take_bytes(extra_bytes), record, packed_bytes));
  fields.take_bytes(comment_bytes);
  if (method != 0 || packed_bytes != record.bytes || (flags & ~kPlainFlags) != 0) {
    return bad(fmt::format("record {} is compressed or encrypted, which torch.save never does",
                           excerpt(record.name)));
  }
  if (disk != 0 || (attributes & kIsFolder) != 0) {
    return bad(
        fmt::format("record {} is a folder, or lies on another disk, which torch.save never "
                    "says; its table of records is damaged",
                    excerpt(record.name)));
  }
  return record;
}

/// torch looks for every record in the folder of the first one.
Result<void> Reader::take_name(std::string name, ZipRecord& record) {
  const std::size_t folder_bytes = name.find('/') + 1;  // npos + 1 is 0
  record.name = name.substr(folder_bytes);
  name.resize(folder_bytes);
  if (!folder_) {
    folder_ = std::move(name);
  } else if (*folder_ != name) {
    return bad(fmt::format(
        "its records lie in two folders, '{}' and '{}', which torch.save never writes; its table "
        "of records is damaged",
        excerpt(*folder_), excerpt(name)));
  }
  return {};
}

/// The ZIP64 extra field has those of the three numbers that do not fit, in this order.
Result<void> Reader::read_sizes64(std::span<const std::byte> extra, ZipRecord& record,
                                  std::uint64_t& packed_bytes) const {
  WireReader fields(extra);
  while (fields.left() >= 4) {
    const auto kind = fields.take_u16();
    const auto bytes = fields.take_u16();
    if (bytes > fields.left()) {
      break;
    }
    WireReader field(fields.take_bytes(bytes));
    if (kind != kZip64Extra) {
      continue;
    }
    for (std::uint64_t* const number : {&record.bytes, &packed_bytes, &record.header_offset}) {
      if (*number == kIn64 && field.left() >= sizeof *number) {
        *number = field.take_u64();
      }
    }
  }
  return {};
}

Result<void> Reader::read_header(ZipRecord& record, std::uint64_t directory_offset) const {
  const Error damaged = bad(
      fmt::format("record {} does not lie where the table says; the file is cut short or damaged",
                  excerpt(record.name)));
  if (record.header_offset > directory_offset ||
      directory_offset - record.header_offset <
          kHeaderBytes + folder_->size() + record.name.size()) {
    return damaged;
  }
  const std::string name = *folder_ + record.name;
  const Result<std::vector<std::byte>> header =
      bytes_at(record.header_offset, kHeaderBytes + name.size());
  PENSTOCK_TRY(header);
  WireReader fields(*header);
  if (fields.take_u32() != kHeaderMagic) {
    return damaged;
  }
  fields.take_bytes(22);
  const auto name_bytes = fields.take_u16();
  const auto extra_bytes = fields.take_u16();
  if (name_bytes != name.size() ||
      !std::ranges::equal(fields.take_bytes(name_bytes), std::as_bytes(std::span(name)))) {
    return bad(
        fmt::format("record {} has another name in front of its bytes than in the table; "
                    "one of them is damaged",
                    excerpt(record.name)));
  }
  record.offset = record.header_offset + kHeaderBytes + name_bytes + extra_bytes;
  if (record.offset > directory_offset || record.bytes > directory_offset - record.offset) {
    return damaged;
  }
  return {};
}

/// Sorts them as they lie.
Result<void> Reader::check(std::vector<ZipRecord>& records) const {
  std::ranges::sort(records, {}, &ZipRecord::header_offset);
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (records[i].header_offset < records[i - 1].offset + records[i - 1].bytes) {
      return bad(fmt::format("records {} and {} overlap", excerpt(records[i - 1].name),
                             excerpt(records[i].name)));
    }
  }
  std::vector<std::string_view> names(records.size());
  std::ranges::transform(records, names.begin(), &ZipRecord::name);
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) {
    return bad(fmt::format("it has two records {}", excerpt(*twice)));
  }
  return {};
}

}  // namespace

const ZipRecord* ZipDirectory::find(std::string_view name) const {
  const auto found = std::ranges::find(records, name, &ZipRecord::name);
  return found == records.end() ? nullptr : &*found;
}

Result<ZipDirectory> read_zip_directory(const File& file) {
  return Reader(file).read();
}

Result<void> write_zip_crc(const File& file, const ZipRecord& record, std::uint32_t crc) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&crc, 1));
  PENSTOCK_TRY(file.write_at(record.directory_offset + kEntryCrcOffset, bytes));
  if (!record.has_descriptor) {
    return file.write_at(record.header_offset + kHeaderCrcOffset, bytes);
  }
  const std::uint64_t end = record.offset + record.bytes;
  std::uint32_t magic = 0;  // which a descriptor may lack
  PENSTOCK_TRY(file.read_at(end, std::as_writable_bytes(std::span(&magic, 1))));
  return file.write_at(end + (magic == kDescriptorMagic ? kDescriptorCrcOffset : 0), bytes);
}

}  // namespace penstock
