#include "swap/store/manifest_record.h"

#include <cmath>
#include <limits>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/utf8.h"
#include "swap/plan/integrity_level.h"
#include "swap/plan/tensor_name.h"
#include "swap/store/wire.h"

namespace penstock {
namespace {

// What stands on drives: never give one of these numbers another meaning.
enum class Kind : std::uint8_t { kDrive = 1, kEntry = 2, kRemoval = 3, kNote = 4, kSession = 5 };

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
// No file is larger, and sums of two offsets cannot wrap.
constexpr std::uint64_t kOffsetMax = 1ULL << 62;

void encode_fields(const DriveRecord& drive, WireWriter& out) {
  out.put_u8(static_cast<std::uint8_t>(Kind::kDrive));
  out.put_u32(drive.index);
  out.put_text(drive.directory);
  out.put_text(drive.file);
  out.put_double(drive.weight);
  out.put_u64(drive.max_bytes.value_or(kUnlimited));
}

// Types and roles by their names: those are documented, the enumerators' numbers are not.
void encode_fields(const StoreEntry& entry, WireWriter& out) {
  const StoredTensor& stored = entry.stored;
  out.put_u8(static_cast<std::uint8_t>(Kind::kEntry));
  out.put_text(entry.info.name);
  out.put_text(dtype_name(entry.info.dtype));
  out.put_text(role_name(entry.info.role));
  out.put_u32(static_cast<std::uint32_t>(entry.info.shape.size()));
  for (const std::uint64_t side : entry.info.shape) {
    out.put_u64(side);
  }
  out.put_u32(stored.drive);
  out.put_u64(stored.extent.offset);
  out.put_u64(stored.extent.bytes);
  out.put_u64(stored.identity.store);
  out.put_u64(stored.identity.tensor);
  out.put_u64(stored.identity.generation);
  out.put_u64(stored.identity.level);
  out.put_u64(stored.identity.checksum);
}

void encode_fields(const RemovalRecord& removal, WireWriter& out) {
  out.put_u8(static_cast<std::uint8_t>(Kind::kRemoval));
  out.put_text(removal.name);
}

void encode_fields(const NoteRecord& note, WireWriter& out) {
  out.put_u8(static_cast<std::uint8_t>(Kind::kNote));
  out.put_text(note.key);
  out.put_text(note.text);
}

void encode_fields(const SessionRecord& session, WireWriter& out) {
  out.put_u8(static_cast<std::uint8_t>(Kind::kSession));
  out.put_u8(static_cast<std::uint8_t>(session.event));
}

std::optional<ManifestRecord> decode_drive(WireReader& in) {
  DriveRecord drive;
  drive.index = in.take_u32();
  drive.directory = in.take_text();
  drive.file = in.take_text();
  drive.weight = in.take_double();
  const std::uint64_t max_bytes = in.take_u64();
  if (max_bytes != kUnlimited) {
    drive.max_bytes = max_bytes;
  }
  // A file beside the others and nowhere else, whatever the name says.
  const bool named = !drive.file.empty() && drive.file.find('/') == std::string::npos &&
                     drive.file.find('\0') == std::string::npos;
  if (!named || !std::isfinite(drive.weight) || drive.weight < 0) {
    return std::nullopt;
  }
  return drive;
}

bool is_laid_out(const StoredTensor& stored) {
  return stored.extent.offset <= kOffsetMax && stored.extent.bytes <= kOffsetMax &&
         is_aligned(stored.extent.offset, kBlockBytes) &&
         stored.extent.bytes == stored.layout_bytes() &&
         stored.identity.level <= static_cast<std::uint64_t>(IntegrityLevel::kFull);
}

std::optional<ManifestRecord> decode_entry(WireReader& in) {
  StoreEntry entry;
  entry.info.name = in.take_text();
  const bool named = check_tensor_name(entry.info.name).has_value();
  const Result<DType> dtype = parse_dtype(in.take_text());
  const Result<Role> role = parse_role(in.take_text());
  const std::uint32_t sides = in.take_u32();
  if (!named || dtype.has_error() || role.has_error() ||
      sides > in.left() / sizeof(std::uint64_t)) {
    return std::nullopt;
  }
  entry.info.dtype = *dtype;
  entry.info.role = *role;
  for (std::uint32_t i = 0; i < sides; ++i) {
    entry.info.shape.push_back(in.take_u64());
  }
  if (!entry.info.fits_63_bits()) {
    return std::nullopt;
  }
  StoredTensor& stored = entry.stored;
  stored.drive = in.take_u32();
  stored.extent.offset = in.take_u64();
  stored.extent.bytes = in.take_u64();
  stored.identity.store = in.take_u64();
  stored.identity.tensor = in.take_u64();
  stored.identity.generation = in.take_u64();
  stored.identity.bytes = entry.info.bytes();
  stored.identity.level = in.take_u64();
  stored.identity.checksum = in.take_u64();
  if (!is_laid_out(stored)) {
    return std::nullopt;
  }
  return entry;
}

std::optional<ManifestRecord> decode_note(WireReader& in) {
  NoteRecord note;
  note.key = in.take_text();
  note.text = in.take_text();
  if (!is_utf8(note.key) || !is_utf8(note.text)) {
    return std::nullopt;
  }
  return note;
}

std::optional<ManifestRecord> decode_session(WireReader& in) {
  const std::uint8_t event = in.take_u8();
  if (event > static_cast<std::uint8_t>(SessionRecord::Event::kClosed)) {
    return std::nullopt;
  }
  return SessionRecord{static_cast<SessionRecord::Event>(event)};
}

std::optional<ManifestRecord> decode_fields(WireReader& in) {
  switch (static_cast<Kind>(in.take_u8())) {
    case Kind::kDrive:
      return decode_drive(in);
    case Kind::kEntry:
      return decode_entry(in);
    case Kind::kRemoval:
      return RemovalRecord{in.take_text()};
    case Kind::kNote:
      return decode_note(in);
    case Kind::kSession:
      return decode_session(in);
  }
  return std::nullopt;
}

}  // namespace

void encode_record(const ManifestRecord& record, std::vector<std::byte>& target) {
  std::vector<std::byte> fields;
  WireWriter out(fields);
  std::visit([&out](const auto& kind) { encode_fields(kind, out); }, record);
  WireWriter(target).put_u32(static_cast<std::uint32_t>(fields.size()));
  target.insert(target.end(), fields.begin(), fields.end());
}

std::optional<ManifestRecord> decode_record(WireReader& source) {
  WireReader fields(source.take_bytes(source.take_u32()));
  std::optional<ManifestRecord> record = decode_fields(fields);
  if (!source.good() || !fields.good() || fields.left() != 0) {
    return std::nullopt;
  }
  return record;
}

}  // namespace penstock
