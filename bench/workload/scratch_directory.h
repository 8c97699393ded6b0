#pragma once

#include <string>

#include "alloc/result.h"

namespace penstock::bench {

/// A directory of ours, `<name>-XXXXXX`, below one of the user's; removed with all that is in it
/// when this object ends. Move-only.
class ScratchDirectory {
 public:
  /// `parent`: "" is the current one. Errors: errno and path (no such directory, not ours to write
  /// to, a full disk). Makes nothing else: a missing `parent` stays missing.
  static Result<ScratchDirectory> make(const std::string& parent, const char* name);
  ScratchDirectory(ScratchDirectory&& other) noexcept;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory();

  /// Absolute.
  const std::string& path() const noexcept { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty: moved from
};

}  // namespace penstock::bench
