#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace penstock::cli {

/// One key of a configuration, before and after, for people.
struct ConfigRow {
  std::string key;     ///< `aio.queue_depth`
  std::string before;  ///< as JSON; `8 (default)` where the file did not say it
  std::string after;
  std::string why;
  bool changed = false;
};

/// A user's configuration while it is made better: keys are set or kept, each with its reason;
/// whatever is not named stays as it is, in its place.
class ConfigDraft {
 public:
  using Json = nlohmann::ordered_json;

  explicit ConfigDraft(Json document) : document_(std::move(document)) {}

  /// Gives a dotted key a value; objects on the way are made. Where it has that value already
  /// (160000000 and 1.6e8 are one, 65536 and "64KiB" too), it stays as it is written. `by_default`
  /// is what a reader of the file takes where the key is absent; null where that is not one value.
  void set(const std::string& key, Json value, std::string why, const Json& by_default = nullptr);
  /// What there is, null where there is nothing.
  Json value(const std::string& key) const;

  const Json& document() const noexcept { return document_; }
  const std::vector<ConfigRow>& rows() const noexcept { return rows_; }

 private:
  Json document_;
  std::vector<ConfigRow> rows_;
};

/// Old and new side by side, a line a key, and behind it why.
std::string comparison_text(const std::vector<ConfigRow>& rows);

}  // namespace penstock::cli
