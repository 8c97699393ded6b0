#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/pickle_value.h"

namespace penstock {

/// How large a pickle may be: a checkpoint of 100,000 tensors has one of some 20 MB. Within these
/// limits no pickle takes more than 2 GB of memory, or more than seconds.
struct PickleLimits {
  static constexpr std::uint64_t kBytesMax = std::uint64_t{128} << 20U;
  static constexpr std::size_t kValuesMax = std::size_t{8} << 20U;
  static constexpr std::size_t kOperationsMax = std::size_t{32} << 20U;
  static constexpr std::size_t kNameBytesMax = 512;  ///< of a module, or of what is in it
  static constexpr std::size_t kAllNamesBytesMax = std::size_t{64} << 20U;
};

/// Reads a pickle of protocols 2 to 5, as Python's and torch's picklers write them, into a tree of
/// values. A pickle is a program; this runs none of it: what it would import is a name here, what
/// it would call a record of the call. Time and memory are bounded by its length, whatever it
/// shares or nests. `origin` names it in errors. Errors: Fault::kInvalidArgument, with the offset.
/// Source of the opcodes: the docstrings of Python's Lib/pickletools.py.
Result<PickleDocument> read_pickle(std::vector<std::byte> bytes, const std::string& origin);

}  // namespace penstock
