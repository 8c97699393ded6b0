#pragma once

#include <cstdint>

namespace penstock {

/// What the double of cuFile (cufile_double.cpp) should do, and how it was called. The library
/// exports one, `cufile_double`; a test sets it to CufileDouble{} before it begins.
struct CufileDouble {
  // The machine.
  bool has_nvidia_fs = true;
  bool has_p2p = false;
  bool copies_always = false;    // force_compat_mode
  bool may_copy = true;          // allow_compat_mode
  bool is_begun_before = false;  // by another part of the process
  // The next calls. Numbers are CUfileOpError's.
  int begin_error = 0;
  int register_error = 0;
  int cuda_error = 0;            // beside register_error
  int transfer_error = 0;        // every transfer is this, negated
  int transfer_errno = 0;        // every transfer is -1 with this
  int interruptions = 0;         // so many transfers first are -1 with EINTR
  std::int64_t most_bytes = -1;  // a transfer moves no more; -1: all
  std::int64_t too_many = 0;     // bytes that a transfer says beyond those it moved
  // What was asked.
  int begun = 0;
  int registered = 0;
  int deregistered = 0;
  int transfers = 0;
};

}  // namespace penstock
