#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::bench {

/// What fio may choose for itself when it does the same work as a job of ours.
///
/// Huge pages: fio asks malloc for its buffers, which takes them where glibc (2.35 or newer) is
/// asked by an environment variable. fio's own ways to them (`iomem=mmaphuge`, `shmhuge`) need
/// pages that an administrator has reserved, so that they are not tried. Left out because they
/// spend a core of their own (`sqthread_poll`) or need a drive that can be polled (`hipri`).
struct FioSettings {
  std::string engine = "io_uring";  ///< fio's name
  std::uint32_t depth = 1;
  bool fixed_buffers = false;  ///< registered buffers and files, for io_uring
  bool huge_pages = false;

  /// `--key=value` of the command line.
  std::vector<std::string> arguments() const;
  /// `NAME=value` of its environment.
  std::vector<std::string> environment() const;
  /// As a user would write it: environment first, then keys.
  std::string describe() const;

  bool operator==(const FioSettings&) const = default;
};

/// Those that are worth a trial at `depth`.
std::vector<FioSettings> fio_candidates(std::uint32_t depth);

}  // namespace penstock::bench
