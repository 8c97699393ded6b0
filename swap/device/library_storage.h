#pragma once

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "alloc/result.h"
#include "swap/device/direct_storage.h"
#include "swap/device/runtime_device.h"

// What cuFile and hipFile have in common. `Library` is CufileLibrary or HipfileLibrary: it has the
// library's functions under names that are the same in both, its types and constants, and says what
// its errors mean. Library::Api is the runtime whose devices it serves.

namespace penstock {

template <class Library>
class LibraryStorage final : public DirectStorage {
 public:
  using Api = typename Library::Api;
  using Context = typename Api::Context;

  /// Without a context the calling thread's own device is used.
  LibraryStorage(std::shared_ptr<const Library> library, std::unique_ptr<const Context> context)
      : library_(std::move(library)), context_(std::move(context)) {}

  std::string_view library() const noexcept override { return Library::kTitle; }

 private:
  Result<void*> add(int descriptor, const std::string& path) override {
    typename Library::Descriptor described{};
    described.type = Library::kFileDescriptor;
    described.handle.fd = descriptor;
    typename Library::Handle handle = nullptr;
    typename Library::Status result{};
    PENSTOCK_TRY(in_context([&] { result = library_->add(&handle, &described); }));
    if (result.err != Library::kSuccess) {
      Error error = library_->error(result, fmt::format("{} cannot use {}", Library::kTitle, path));
      error.path = path;
      return error;
    }
    return handle;
  }
  void remove(void* handle) noexcept override {
    (void)in_context([&] { library_->remove(handle); });
  }

  Result<Step> step(Direction direction, void* handle, std::uint64_t offset,
                    DeviceSpan memory) override {
    Step taken;
    PENSTOCK_TRY(in_context([&] {
      void* const address = reinterpret_cast<void*>(memory.address);
      const auto at = static_cast<off_t>(offset);
      errno = 0;
      taken.moved = direction == Direction::kRead
                        ? library_->read(handle, address, memory.bytes, at, 0)
                        : library_->write(handle, address, memory.bytes, at, 0);
      taken.error_number = errno;  // before anything else is called
    }));
    return taken;
  }
  Error refusal(std::int64_t number, const std::string& doing) const override {
    return library_->refusal(number, doing);
  }

  template <class Call>
  Result<void> in_context(Call call) const {
    if (context_ == nullptr) {
      call();
      return {};
    }
    const auto result = context_->run([&] {
      call();
      return Api::kSuccess;
    });
    return result == Api::kSuccess
               ? Result<void>()
               : context_->api().error(result,
                                       fmt::format("{} cannot make a device current", Api::kTitle));
  }

  const std::shared_ptr<const Library> library_;
  const std::unique_ptr<const Context> context_;
};

/// What was found of a library.
template <class Library>
struct FoundLibrary {
  DirectStorageFacts facts;
  std::shared_ptr<const Library> library;  // null: not present
};

/// Why no device of the runtime could be served; empty where one could.
template <class Api>
std::string why_no_device() {
  const Result<std::vector<DeviceFacts>> devices = list_devices<Api>();
  return devices.has_error() ? devices.error().message
         : devices->empty()  ? fmt::format("{} shows this process no device", Api::kTitle)
                             : "";
}

/// Looks for the first of `names`, and begins it unless `obstacle()` says why not.
template <class Library>
FoundLibrary<Library> look_for_library(std::span<const char* const> names,
                                       std::string (*obstacle)()) {
  FoundLibrary<Library> found;
  found.facts.runtime = Library::Api::kRuntime;
  found.facts.library = Library::kTitle;
  auto library = std::make_shared<Library>();
  if (const Result<void> loaded = library->load(names); loaded.has_error()) {
    found.facts.reason = loaded.error().message;
    return found;
  }
  found.library = library;
  found.facts.is_present = true;
  found.facts.version = library->version();
  found.facts.reason = obstacle();
  if (found.facts.reason.empty()) {
    const Result<void> begun = library->begin_direct();
    found.facts.is_direct = begun.has_value();
    found.facts.reason = begun.has_error() ? begun.error().message : "";
  }
  return found;
}

/// The library of this process, which is asked once.
template <class Library>
const FoundLibrary<Library>& library_of_process() {
  static const FoundLibrary<Library> found =
      look_for_library<Library>(Library::kLibraries, why_no_device<typename Library::Api>);
  return found;
}

template <class Library>
Result<std::shared_ptr<DirectStorage>> open_library(std::uint32_t device) {
  using Api = typename Library::Api;
  const FoundLibrary<Library>& found = library_of_process<Library>();
  if (!found.facts.is_direct) {
    return fault(Fault::kUnsupported, found.facts.reason);
  }
  const Result<std::shared_ptr<const Api>> api = load_runtime<Api>();
  PENSTOCK_TRY(api);
  Result<std::unique_ptr<const typename Api::Context>> context = Api::Context::retain(*api, device);
  PENSTOCK_TRY(context);
  return std::make_shared<LibraryStorage<Library>>(found.library, std::move(*context));
}

}  // namespace penstock
