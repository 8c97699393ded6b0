#include "bindings/deepspeed/shard_signature.h"

#include <charconv>
#include <span>

#include "io/file.h"

namespace penstock {
namespace {

constexpr std::string_view kRecord = "penstock";
constexpr std::uint64_t kBytesMax = 256;

}  // namespace

std::optional<ShardSignature> parse_signature(std::string_view record) {
  const std::size_t space = record.find(' ');
  if (space == 0 || space == record.npos) {
    return std::nullopt;
  }
  ShardSignature signature{std::string(record.substr(0, space))};
  const char* const end = record.data() + record.size();
  const auto [stop, error] = std::from_chars(record.data() + space + 1, end, signature.rank);
  return error == std::errc() && stop == end ? std::optional(std::move(signature)) : std::nullopt;
}

std::optional<ShardSignature> read_signature(const TorchArchive& archive) {
  const ZipRecord* const record = archive.directory().find(kRecord);
  if (record == nullptr || record->bytes > kBytesMax) {
    return std::nullopt;
  }
  std::string text(record->bytes, '\0');
  const Result<File> file = File::open(archive.path(), File::Access::kRead, DirectMode::kBuffered);
  if (file.has_error() ||
      file->read_at(record->offset, std::as_writable_bytes(std::span(text))).has_error()) {
    return std::nullopt;
  }
  return parse_signature(text);
}

}  // namespace penstock
