#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>

namespace penstock {

/// What a caller or a file did wrong. Faults of the world carry an errno instead
/// (generic_category).
enum class Fault {
  kInvalidArgument = 1,
  kUnknownTensor,
  kWrongSize,
  kClosed,
  kExhausted,      ///< a budget is spent; the message names the number to raise and by how much
  kCorrupt,        ///< bytes read are not the bytes that were written
  kConfiguration,  ///< a key, value or rule of the user's configuration
  kUnsupported,
};

const std::error_category& fault_category() noexcept;
inline std::error_code make_error_code(Fault fault) noexcept {
  return {static_cast<int>(fault), fault_category()};
}

/// One failure: `message` is a whole sentence for a user (what failed, on what, why, what to do).
/// `path` and `tensor` repeat what the message names, for programs; empty where none is concerned.
struct Error {
  std::error_code code;
  std::string message;
  std::string path;
  std::string tensor;

  /// The errno of a fault of the world, 0 for a Fault.
  int system_errno() const noexcept;

  /// Whether what was written to has no room for it: ENOSPC, EDQUOT or EFBIG.
  bool is_full() const noexcept;
};

/// `what` without a full stop; the errno's text is appended: "cannot open /x: Permission denied".
Error system_error(int errno_value, std::string what, std::string path = {});
Error fault(Fault code, std::string message, std::string path = {});

/// A value or an Error. `.value()` on an error throws PenstockException with its message.
template <class T>
using Result = boost::system::result<T, Error>;

/// What `Result::value()` throws when it holds an error.
class PenstockException : public std::system_error {
 public:
  explicit PenstockException(Error error)
      : std::system_error(error.code, error.message), error_(std::move(error)) {}
  const Error& error() const noexcept { return error_; }
  const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

/// Found by argument-dependent lookup from boost::system::result.
[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location&);

}  // namespace penstock

template <>
struct std::is_error_code_enum<penstock::Fault> : std::true_type {};

/// Leaves the enclosing function with the error of `expression` (a Result) if it holds one.
#define PENSTOCK_TRY(expression)                                               \
  do {                                                                         \
    if (auto&& penstock_result = (expression); penstock_result.has_error()) {  \
      return std::forward<decltype(penstock_result)>(penstock_result).error(); \
    }                                                                          \
  } while (false)
