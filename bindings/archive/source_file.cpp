#include "bindings/archive/source_file.h"

#include <utility>

namespace penstock {

Result<SourceFile> SourceFile::open(FileSystem& system, const std::string& path,
                                    File::Access access) {
  Result<File> direct = system.open(path, access, DirectMode::kAuto);
  PENSTOCK_TRY(direct);
  Result<File> buffered = system.open(path, access, DirectMode::kBuffered);
  PENSTOCK_TRY(buffered);
  const Result<std::uint64_t> bytes = buffered->size_bytes();
  PENSTOCK_TRY(bytes);
  return SourceFile{std::move(direct).value(), std::move(buffered).value(), *bytes};
}

}  // namespace penstock
