#include "alloc/result.h"

#include <cerrno>

namespace penstock {
namespace {

class FaultCategory final : public std::error_category {
 public:
  const char* name() const noexcept override { return "penstock"; }

  std::string message(int value) const override {
    switch (static_cast<Fault>(value)) {
      case Fault::kInvalidArgument:
        return "invalid argument";
      case Fault::kUnknownTensor:
        return "unknown tensor";
      case Fault::kWrongSize:
        return "wrong size";
      case Fault::kClosed:
        return "closed";
      case Fault::kExhausted:
        return "budget exhausted";
      case Fault::kCorrupt:
        return "corrupt data";
      case Fault::kConfiguration:
        return "bad configuration";
      case Fault::kUnsupported:
        return "not supported";
    }
    return "unknown fault";
  }
};

}  // namespace

const std::error_category& fault_category() noexcept {
  static const FaultCategory category;
  return category;
}

int Error::system_errno() const noexcept {
  const bool of_the_world =
      code.category() == std::generic_category() || code.category() == std::system_category();
  return of_the_world ? code.value() : 0;
}

bool Error::is_full() const noexcept {
  const int number = system_errno();
  return number == ENOSPC || number == EDQUOT || number == EFBIG;
}

Error system_error(int errno_value, std::string what, std::string path) {
  const std::error_code code(errno_value, std::generic_category());
  return {code, std::move(what) + ": " + code.message(), std::move(path), {}};
}

Error fault(Fault code, std::string message, std::string path) {
  return {code, std::move(message), std::move(path), {}};
}

void throw_exception_from_error(const Error& error, const boost::source_location& /*place*/) {
  throw PenstockException(error);
}

}  // namespace penstock
