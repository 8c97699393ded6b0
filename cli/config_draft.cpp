#include "cli/config_draft.h"

#include <fmt/format.h>

#include "alloc/bytes.h"
#include "cli/printable.h"
#include "cli/text_table.h"

namespace penstock::cli {
namespace {

using Json = ConfigDraft::Json;

constexpr std::size_t kCellMax = 44;

Json::json_pointer pointer_to(std::string key) {
  for (char& letter : key) {
    letter = letter == '.' ? '/' : letter;
  }
  return Json::json_pointer("/" + key);
}

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string cell(const std::string& text) {
  const std::string shown = printable(text);
  return shown.size() <= kCellMax ? shown : shown.substr(0, kCellMax - 3) + "...";
}

// "64MiB" and 67108864 are one size in penstock's block; DeepSpeed takes numbers only.
bool is_same(const std::string& key, const Json& before, const Json& value) {
  if (!key.starts_with("penstock.") || !before.is_string() || !value.is_number_unsigned()) {
    return before == value;
  }
  const Result<std::uint64_t> bytes = parse_bytes(before.get_ref<const std::string&>());
  return bytes.has_value() && *bytes == value.get<std::uint64_t>();
}

}  // namespace

void ConfigDraft::set(const std::string& key, Json value, std::string why, const Json& by_default) {
  const Json before = this->value(key);
  const bool is_other = !is_same(key, before, value);
  ConfigRow row{key, dump(before), dump(value), std::move(why), is_other};
  if (before.is_null()) {
    row.before = by_default.is_null() ? "-" : dump(by_default) + " (default)";
    row.changed = by_default.is_null() || by_default != value;
  } else if (!row.changed) {
    row.after = row.before;  // as it is written: 1.6e8, "64MiB"
  }
  if (is_other) {
    document_[pointer_to(key)] = std::move(value);
  }
  rows_.push_back(std::move(row));
}

Json ConfigDraft::value(const std::string& key) const {
  const Json::json_pointer pointer = pointer_to(key);
  return document_.contains(pointer) ? document_.at(pointer) : Json(nullptr);
}

std::string comparison_text(const std::vector<ConfigRow>& rows) {
  TextTable table({{"key"}, {"old"}, {"new"}, {"why"}});
  for (const ConfigRow& row : rows) {
    table.add({row.key, cell(row.before), row.changed ? cell(row.after) : "=", printable(row.why)});
  }
  return table.text();
}

}  // namespace penstock::cli
