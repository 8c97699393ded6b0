#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "alloc/result.h"
#include "io/directory.h"

namespace penstock {

/// A file that gets its name when it is whole. Until then it is `.NAME.NUMBER.partial` beside it,
/// locked, and gone with this object; that of a process that died is removed by the next one that
/// writes NAME.
class PartialFile {
 public:
  /// With room for all of `bytes`. `directory` outlives it. Errors: ENOSPC and others with the
  /// path.
  static Result<std::unique_ptr<PartialFile>> begin(Directory& directory, const std::string& name,
                                                    std::uint64_t bytes);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const File& file() const noexcept { return file_; }
  /// Who may read it, as chmod takes it.
  Result<void> set_mode(::mode_t mode);
  /// For small files: all of it at once.
  Result<void> write(const std::string& text);
  /// All of it is written: cuts off what stands behind its `bytes`, and syncs.
  Result<void> finish();
  /// Gives it its name; safe when the directory has been synced.
  Result<void> publish();
  /// The same, and EEXIST where another file has it.
  Result<void> publish_new();

 private:
  PartialFile(Directory& directory, File file, std::string partial_name, std::string name,
              std::uint64_t bytes);

  Directory& directory_;
  File file_;
  std::string partial_name_;  // empty: it has its name
  std::string name_;
  std::uint64_t bytes_;
};

}  // namespace penstock
