#pragma once

#include <string>

#include "alloc/result.h"

namespace penstock::bench {

/// A directory of ours, `penstock-tune-XXXXXX`, below one of the user's; removed with all that is
/// in it when this object ends. Move-only.
class TrialDirectory {
 public:
  /// Errors: errno and path (no such directory, not ours to write to, a full disk). Makes nothing
  /// else: a missing `parent` stays missing.
  static Result<TrialDirectory> make(const std::string& parent);
  TrialDirectory(TrialDirectory&& other) noexcept;
  TrialDirectory& operator=(TrialDirectory&&) = delete;
  TrialDirectory(const TrialDirectory&) = delete;
  TrialDirectory& operator=(const TrialDirectory&) = delete;
  ~TrialDirectory();

  const std::string& path() const noexcept { return path_; }

 private:
  explicit TrialDirectory(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace penstock::bench
