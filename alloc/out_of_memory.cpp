#include "alloc/out_of_memory.h"

namespace penstock {

Error out_of_memory() noexcept {
  Error error;
  error.code = make_error_code(Fault::kExhausted);
  error.message = "out of memory";  // short enough to lie in the string itself
  return error;
}

}  // namespace penstock
