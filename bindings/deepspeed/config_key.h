#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace penstock {

/// What stands under a key. Each but kAny may also be null, which counts as absent, and those that
/// are neither required nor objects Hugging Face's "auto".
enum class KeyKind : std::uint8_t {
  kAny,      ///< anything: penstock does not read it
  kFlag,     ///< true or false, as json_flag() takes them
  kCount,    ///< a whole number, as json_count() takes it
  kNumber,   ///< any number
  kText,     ///< a text; of `choices`, where there are any
  kChoice,   ///< a text of `choices`
  kSize,     ///< bytes: a whole number, or a text for parse_bytes()
  kSizes,    ///< a list of such
  kTexts,    ///< a list of texts
  kPaths,    ///< a path, several with `;` between them, or a list of paths
  kSection,  ///< an object with the keys of `inside`
  kList,     ///< a list of such objects
};

struct ConfigTable;

/// One key of a configuration: ConfigSection reads by it, config_schema() describes it.
struct ConfigKey {
  std::string_view name;
  KeyKind kind = KeyKind::kAny;
  std::string_view meaning = {};     ///< one line, without its full stop
  std::string_view by_default = {};  ///< as JSON; empty: no one value is
  std::span<const std::string_view> choices = {};
  std::uint64_t maximum = 0;            ///< of a kCount (9 at most) and of each of kSizes; 0: none
  bool is_above_zero = false;           ///< of kNumber, kSize and each of kSizes
  bool is_share = false;                ///< of kNumber: it is from 0 to 1
  const ConfigTable* inside = nullptr;  ///< of kSection and kList
  bool may_be_flag = false;             ///< a kSection may be true or false instead
  bool may_be_text = false;             ///< entries of a kList may be texts instead
  bool is_required = false;
  std::string_view same_as = {};  ///< another name of this value: both at once are refused

  /// The largest whole number that is taken; DeepSpeed's own have no end.
  constexpr std::uint64_t maximum_or_all() const noexcept {
    return maximum == 0 ? std::numeric_limits<std::uint64_t>::max() : maximum;
  }
};

/// The keys of one object.
struct ConfigTable {
  std::span<const ConfigKey> keys;
  bool is_complete = false;  ///< all other keys are refused, by us or by DeepSpeed

  /// The key of that name; nullptr where there is none.
  const ConfigKey* find(std::string_view name) const noexcept;
  std::vector<std::string_view> names() const;
};

}  // namespace penstock
