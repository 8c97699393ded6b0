#include "io/aio_refusal.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <string>

namespace penstock {
namespace {

std::optional<std::uint64_t> read_number(const char* path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::string reason(int errno_value, const std::optional<AioUsage>& usage) {
  switch (errno_value) {
    case EAGAIN:
      return fmt::format(
          "all programs together may set up only {} requests, and {} are; raise the limit: `sysctl "
          "-w fs.aio-max-nr=1048576` (/proc/sys/fs/aio-max-nr)",
          usage ? fmt::format("{}", usage->allowed) : "so many",
          usage ? fmt::format("{}", usage->taken) : "too many");
    case EPERM:
      return "a seccomp filter forbids it, as those of containers may; start the container with a "
             "profile that allows io_setup, io_submit, io_getevents and io_destroy";
    case EACCES:
      return "a security module (SELinux, AppArmor) forbids it; its log names the rule";
    case ENOSYS:
      return "this kernel was built without it (CONFIG_AIO), or a seccomp filter says so; start "
             "the container with a profile that allows io_setup";
    case ENOMEM:
      return "memory is short";
    default:
      return "an error that io_setup(2) does not list";
  }
}

}  // namespace

std::optional<AioUsage> read_aio_usage() {
  const std::optional<std::uint64_t> allowed = read_number("/proc/sys/fs/aio-max-nr");
  const std::optional<std::uint64_t> taken = read_number("/proc/sys/fs/aio-nr");
  if (!allowed || !taken) {
    return std::nullopt;
  }
  return AioUsage{*allowed, *taken};
}

Error explain_aio_refusal(int errno_value, const std::optional<AioUsage>& usage) {
  return system_error(errno_value, "cannot use asynchronous I/O of the kernel (libaio): " +
                                       reason(errno_value, usage));
}

}  // namespace penstock
