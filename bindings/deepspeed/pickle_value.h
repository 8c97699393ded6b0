#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// Where a value stands in its PickleDocument. Values are shared as the pickle shares them, and may
/// contain themselves: a walk along references must remember where it has been.
using PickleRef = std::uint32_t;

/// What a pickle describes. Nothing that it names is imported, called or made.
struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,
    kLargeInteger,  ///< beyond 64 bits
    kFloat,
    kBytes,
    kText,
    kList,
    kTuple,
    kDict,
    kSet,
    kGlobal,      ///< a name to import
    kObject,      ///< a call: `callable` with `arguments`, then perhaps a `state`
    kPersistent,  ///< what lies outside the pickle, by its id in `arguments`
  };

  Kind kind = Kind::kNone;
  /// Of kObject: `items` are keys and values, as those of kDict always are.
  bool has_pairs = false;
  std::int64_t integer = 0;  ///< kBool: 0 or 1
  double number = 0;
  /// kText and kBytes; kLargeInteger: its bytes, the lowest first; kGlobal: `torch.Size`.
  std::string_view text{};
  /// Elements; of a dict key, value, key, value. A key may come again: the last one counts.
  std::vector<PickleRef> items{};
  PickleRef callable = 0;   ///< kObject; 0, which is always None, where there is none
  PickleRef arguments = 0;  ///< kObject, kPersistent
  PickleRef state = 0;      ///< kObject
};

using PickleKind = PickleValue::Kind;

/// The values of one pickle, and the memory that they point into. Movable; values stay where they
/// are.
class PickleDocument {
 public:
  explicit PickleDocument(std::vector<std::byte> bytes);
  PickleDocument(PickleDocument&&) = default;
  PickleDocument& operator=(PickleDocument&&) = default;
  PickleDocument(const PickleDocument&) = delete;
  PickleDocument& operator=(const PickleDocument&) = delete;
  ~PickleDocument() = default;

  const PickleValue& operator[](PickleRef ref) const { return values_[ref]; }
  PickleRef root() const noexcept { return root_; }
  std::size_t size() const noexcept { return values_.size(); }
  std::size_t byte_count() const noexcept { return bytes_.size(); }

  /// The value of a text key in a dict, or in an object that has pairs; 0 (None) where there is
  /// none.
  PickleRef find(PickleRef dict, std::string_view key) const;
  /// The name of an object's callable (`torch._utils._rebuild_tensor_v2`); empty for anything else.
  std::string_view called(PickleRef object) const;

 private:
  friend class PickleMachine;

  std::vector<std::byte> bytes_;
  std::deque<PickleValue> values_;
  std::deque<std::string> names_;  // of globals
  PickleRef root_ = 0;
};

}  // namespace penstock
