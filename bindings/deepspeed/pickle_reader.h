#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "bindings/deepspeed/pickle_value.h"

namespace penstock {

/// How large a pickle may be: a checkpoint of 100,000 tensors has one of some 20 MB. Within these
/// no pickle takes more than 2 GB of memory, or more than seconds.
struct PickleLimits {
  std::size_t bytes = std::size_t{128} << 20U;
  std::size_t values = std::size_t{8} << 20U;
  std::size_t operations = std::size_t{32} << 20U;
  std::size_t name_bytes = 512;  ///< of a module, or of what is in it
  std::size_t all_names_bytes = std::size_t{64} << 20U;
};

/// Reads a pickle of protocols 2 to 5, as Python's and torch's picklers write them, into a tree of
/// values. A pickle is a program; this runs none of it: what it would import is a name here, what
/// it would call a record of the call. Time and memory are bounded by its length, whatever it
/// shares or nests. `origin` names it in errors. Errors: Fault::kInvalidArgument, with the offset.
/// Source of the opcodes: the docstrings of Python's Lib/pickletools.py.
Result<PickleDocument> read_pickle(std::vector<std::byte> bytes, const std::string& origin,
                                   const PickleLimits& limits = {});

}  // namespace penstock
