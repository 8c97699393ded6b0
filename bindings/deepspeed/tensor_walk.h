#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/deepspeed/pickle_value.h"

namespace penstock {

/// An element's type as torch names it, in penstock's words where it has any.
struct ElementType {
  std::string name;
  std::uint32_t bits = 0;  ///< 0: not known
};

/// Of `torch.bfloat16`.
ElementType element_type(std::string_view torch_name);
/// Of `torch.BFloat16Storage`. A storage without a type counts bytes.
ElementType storage_type(std::string_view class_name);

/// The arguments of a call that rebuilds a tensor.
struct TensorCall {
  PickleRef storage = 0;
  PickleRef offset = 0;
  PickleRef size = 0;
  PickleRef stride = 0;
  PickleRef dtype = 0;  ///< 0: the storage's
};

/// Nothing where a value is no such call. Parameters and subclasses are seen through.
std::optional<TensorCall> find_tensor_call(const PickleDocument& pickle, PickleRef value);

/// Whether a value is any tensor, also one that find_tensor_call() finds nothing of: quantized,
/// sparse, nested, on the meta device.
bool rebuilds_tensor(const PickleDocument& pickle, PickleRef value);

/// All tensors of a pickle, from its root on, each once; the pickle outlives the walk.
class TensorWalk {
 public:
  explicit TensorWalk(const PickleDocument& pickle);

  /// Nothing after the last.
  std::optional<PickleRef> next();
  /// The keys and indices that lead to a value that next() has given, at most a dozen of them.
  std::string place(PickleRef value) const;

 private:
  // How a value was come to.
  struct Step {
    PickleRef parent = 0;
    PickleRef key = 0;  // 0: by index
    std::uint32_t index = 0;
    bool is_seen = false;
  };
  void reach(PickleRef value, Step step);
  void open(PickleRef value);

  const PickleDocument& pickle_;
  std::vector<Step> steps_;         // by value
  std::vector<PickleRef> pending_;  // the next one last
};

}  // namespace penstock
