#include "swap/device/direct_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include "alloc/bytes.h"
#include "swap/device/cufile_storage.h"
#include "swap/device/hipfile_storage.h"

namespace penstock {
namespace {

struct Library {
  std::string_view runtime;
  DirectStorageFacts (*look)();
  Result<std::shared_ptr<DirectStorage>> (*open)(std::uint32_t number);
};

constexpr std::array kLibraries{Library{"cuda", look_for_cufile, open_cufile},
                                Library{"hip", look_for_hipfile, open_hipfile}};

std::string no_library(std::string_view runtime) {
  return fmt::format("no library moves bytes between drives and devices of '{}'", runtime);
}

}  // namespace

void DirectFile::Remove::operator()(void* handle) const noexcept {
  storage->remove(handle);
}

Result<DirectFile> DirectStorage::register_file(int descriptor, std::string path) {
  const Result<void*> handle = add(descriptor, path);
  PENSTOCK_TRY(handle);
  return DirectFile(DirectFile::Handle(*handle, {shared_from_this()}), std::move(path));
}

std::string DirectStorage::describe(Direction direction, const DirectFile& file,
                                    std::uint64_t offset, std::uint64_t bytes) const {
  return fmt::format("{} cannot {} {} of {} at offset {}", library(),
                     direction == Direction::kRead ? "read" : "write", format_bytes(bytes),
                     file.path(), offset);
}

Result<void> DirectStorage::transfer(Direction direction, const DirectFile& file,
                                     std::uint64_t offset, DeviceSpan memory) {
  constexpr auto kOffsetMax = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (file.handle_.get_deleter().storage.get() != this || offset > kOffsetMax ||
      memory.bytes > kOffsetMax - offset) {
    return fault(Fault::kInvalidArgument,
                 describe(direction, file, offset, memory.bytes) +
                     ": the file is registered elsewhere, or no file is so large");
  }
  for (std::uint64_t done = 0; done < memory.bytes;) {
    const DeviceSpan rest = memory.part(done, memory.bytes - done);
    const Result<Step> taken = step(direction, file.handle_.get(), offset + done, rest);
    PENSTOCK_TRY(taken);
    const std::int64_t moved = taken->moved;
    if (moved > 0 && static_cast<std::uint64_t>(moved) <= rest.bytes) {
      done += static_cast<std::uint64_t>(moved);  // less than asked for is continued
      continue;
    }
    if (moved == -1 && taken->error_number == EINTR) {
      continue;
    }
    const std::string doing = describe(direction, file, offset + done, rest.bytes);
    Error error = moved == -1 ? system_error(taken->error_number, doing, file.path())
                  : moved < 0 ? refusal(-moved, doing)
                  : moved > 0 ? system_error(EIO, doing + ": it moved more than that")
                  : direction == Direction::kRead
                      ? system_error(ENODATA, doing + ": the file ends there")
                      : system_error(EIO, doing + ": it takes nothing");
    error.path = file.path();
    return error;
  }
  return {};
}

DirectStorageFacts look_for_direct_storage(std::string_view runtime) {
  const auto found = std::ranges::find(kLibraries, runtime, &Library::runtime);
  if (found == kLibraries.end()) {
    DirectStorageFacts facts;
    facts.reason = no_library(runtime);
    return facts;
  }
  return found->look();
}

Result<std::shared_ptr<DirectStorage>> open_direct_storage(const Device& device) {
  const auto found = std::ranges::find(kLibraries, device.runtime(), &Library::runtime);
  return found == kLibraries.end() ? fault(Fault::kUnsupported, no_library(device.runtime()))
                                   : found->open(device.facts().number);
}

}  // namespace penstock
