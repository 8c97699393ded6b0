#include "engine_object.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "archive_object.h"
#include "array_argument.h"
#include "bindings/deepspeed/config.h"
#include "engine_dicts.h"
#include "error_translation.h"
#include "future.h"
#include "gil_release.h"
#include "held_array.h"
#include "lease_object.h"
#include "python_text.h"
#include "swap/device/device_runtime.h"
#include "swap/swap_engine.h"
#include "warning_inbox.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

/// Runs `work` without the GIL. Warnings that were kept are delivered before it, since that may
/// throw: behind it an operation may be under way.
template <class F>
auto released(F&& work) {
  deliver_warnings();
  GilRelease release;
  return work();
}

/// Whether the engine has not taken what a lease holds.
bool is_refused(const Ticket& ticket) {
  const Error* const error = ticket.error();
  return error != nullptr && (error->code == make_error_code(Fault::kInvalidArgument) ||
                              error->code == make_error_code(Fault::kUnknownTensor));
}

using NamedTensor = std::tuple<std::uint64_t, std::string, std::vector<std::uint64_t>>;

/// SwapEngine by number, thin: every call releases the GIL before it can block.
class EngineObject {
 public:
  EngineObject(const std::string& config_json, const std::string& origin, std::uint32_t ranks,
               const std::vector<std::string>& devices) {
    SwapEngineOptions options;
    for (const std::string& name : devices) {
      devices_[name] = unwrap(released([&] { return open_device(name); }));
      options.devices.push_back(devices_[name]);
    }
    options.config = unwrap(parse_config(config_json, origin)).engine_config();
    io_engine_ = options.config.engine;
    options.ranks_on_node = ranks;
    options.warn = keep_warning;
    engine_ = unwrap(released([&] { return SwapEngine::open(std::move(options)); }));
  }
  ~EngineObject() { close_quietly(); }

  std::uint32_t open_namespace(std::string name, const std::vector<std::string>& paths) {
    std::vector<PathConfig> configs;
    for (const std::string& path : paths) {
      configs.push_back({path, std::nullopt, std::nullopt});
    }
    const Result<NamespaceId> opened =
        released([&] { return engine_->open_namespace(std::move(name), std::move(configs)); });
    deliver_warnings();
    return to_number(unwrap(opened));
  }
  void close_namespace(std::uint32_t space) {
    const Result<void> closed =
        released([&] { return engine_->close_namespace(NamespaceId{space}); });
    deliver_warnings();
    unwrap(closed);
  }

  std::uint64_t declare(std::uint32_t space, const std::string& name, const std::string& dtype,
                        std::vector<std::uint64_t> shape, const std::string& role) {
    TensorInfo info{name, unwrap(parse_dtype(dtype)), std::move(shape), unwrap(parse_role(role))};
    return to_number(unwrap(engine_->declare(NamespaceId{space}, std::move(info))));
  }
  /// Of a name; nothing where there is none. What looks names up or declares them keeps the GIL and
  /// runs no Python code meanwhile. So a signal's handler, a finalizer, another thread and a forked
  /// child find a name as it was before or as it is behind, and no lock that could be held.
  std::optional<NamedTensor> find(std::uint32_t space, const std::string& name) const {
    const TensorId id = engine_->find(NamespaceId{space}, name).value_or(TensorId{});
    const auto info = engine_->info(id);
    return is_unknown(info) ? std::nullopt : std::optional(described(id, *unwrap(info)));
  }
  void forget(std::uint64_t tensor) {
    unwrap(released([&] { return engine_->forget(TensorId{tensor}); }));
  }
  void rename(std::uint64_t tensor, std::string name) {
    unwrap(engine_->rename(TensorId{tensor}, std::move(name)));
  }

  void set_trained(std::uint64_t tensor, bool is_trained) {
    unwrap(engine_->set_trained(TensorId{tensor}, is_trained));
  }

  /// What a durable store brought along, and what was declared since, by name.
  nb::dict tensors(std::uint32_t space) {
    nb::dict known;
    const std::vector<TensorId> ids =
        released([&] { return engine_->tensors(NamespaceId{space}); });
    if (ids.empty()) {
      expect_open();
    }
    for (const TensorId id : ids) {
      const auto found = engine_->info(id);
      if (!is_unknown(found)) {  // forgotten meanwhile
        const TensorInfo& info = *unwrap(found);
        known[nb::cast(info.name)] = nb::cast(described(id, info));
      }
    }
    return known;
  }

  LeaseObject allocate(std::uint64_t tensor) {
    Lease lease = unwrap(released([&] { return engine_->allocate(TensorId{tensor}); }));
    return {std::move(lease), unwrap(engine_->info(TensorId{tensor})), Access::kUpdate, this};
  }
  Future commit(LeaseObject& lease) {
    lease.expect_held();
    if (lease.access == Access::kRead && lease.giver == this && !closed_) {
      raise(fault(Fault::kInvalidArgument, "tensor '" + lease.info->name +
                                               "': a lease to read cannot be committed; get it "
                                               "with update=True, and change that"));
    }
    const Lease held = lease.lease;  // another thread may release that one meanwhile
    const std::shared_ptr<UpdateEnd> update = lease.update;
    deliver_warnings();  // may raise: before the lease changes
    const bool was_committed = update && std::exchange(update->is_committed, true);
    Future committed{released([&] { return engine_->commit(held); })};
    if (update && is_refused(committed.ticket)) {
      update->is_committed = was_committed;
    }
    return committed;
  }
  Future put(std::uint64_t tensor, nb::handle array) {
    Source source = array_of<Source>(array);
    const std::span bytes(static_cast<const std::byte*>(source.data()), source.nbytes());
    return holding(std::move(source),
                   released([&] { return engine_->put(TensorId{tensor}, bytes); }));
  }
  /// Under a name, which is declared if it is new, and free again should its first put fail.
  Future put_named(std::uint32_t space, std::string name, const std::string& dtype,
                   std::vector<std::uint64_t> shape, nb::handle array) {
    TensorInfo info{std::move(name), unwrap(parse_dtype(dtype)), std::move(shape), Role::kParam};
    Source source = array_of<Source>(array);
    const std::span bytes(static_cast<const std::byte*>(source.data()), source.nbytes());
    return holding(std::move(source), put_as(NamespaceId{space}, std::move(info),
                                             [&](TensorId id) { return engine_->put(id, bytes); }));
  }
  Future get(std::uint64_t tensor, bool update) {
    const Access access = update ? Access::kUpdate : Access::kRead;
    Ticket ticket = released([&] { return engine_->get(TensorId{tensor}, access); });
    return {std::move(ticket), unwrap(engine_->info(TensorId{tensor})), access, this};
  }
  Future get_into(std::uint64_t tensor, nb::handle array) {
    Target target = array_of<Target>(array);
    const std::span bytes(static_cast<std::byte*>(target.data()), target.nbytes());
    return holding(std::move(target),
                   released([&] { return engine_->get_into(TensorId{tensor}, bytes); }));
  }
  /// `stream`: what was begun there comes first; nothing: the caller has seen to that.
  Future get_to_device(std::uint64_t tensor, nb::handle array, const std::string& device,
                       const std::string& dtype, std::optional<std::uintptr_t> stream) {
    DeviceTarget target = array_of<DeviceTarget>(array);
    const DeviceTensor there = on_device(target.data(), target.nbytes(), device, dtype, stream);
    return holding(std::move(target),
                   released([&] { return engine_->get_to_device(TensorId{tensor}, there); }));
  }
  Future put_from_device(std::uint64_t tensor, nb::handle array, const std::string& device,
                         const std::string& dtype, std::optional<std::uintptr_t> stream) {
    DeviceSource source = array_of<DeviceSource>(array);
    const DeviceTensor there = on_device(source.data(), source.nbytes(), device, dtype, stream);
    return holding(std::move(source),
                   released([&] { return engine_->put_from_device(TensorId{tensor}, there); }));
  }
  Future put_named_from_device(std::uint32_t space, std::string name, const std::string& dtype,
                               std::vector<std::uint64_t> shape, nb::handle array,
                               const std::string& device, const std::string& source_dtype) {
    TensorInfo info{std::move(name), unwrap(parse_dtype(dtype)), std::move(shape), Role::kParam};
    DeviceSource source = array_of<DeviceSource>(array);
    const DeviceTensor there =
        on_device(source.data(), source.nbytes(), device, source_dtype, std::nullopt);
    return holding(std::move(source), put_as(NamespaceId{space}, std::move(info), [&](TensorId id) {
                     return engine_->put_from_device(id, there);
                   }));
  }
  /// The stream of copies to the device, or from it, as its runtime's handle.
  std::uintptr_t device_stream(const std::string& device, bool to_device) const {
    const Device& opened = *device_of(device);
    return static_cast<std::uintptr_t>(unwrap(to_device ? engine_->stream_to_device(opened)
                                                        : engine_->stream_from_device(opened)));
  }
  void prefetch(const std::vector<std::uint64_t>& tensors) {
    std::vector<TensorId> ids;
    for (const std::uint64_t tensor : tensors) {
      ids.push_back(TensorId{tensor});
    }
    released([&] { engine_->prefetch(ids); });
  }

  void flush() {
    const Result<void> flushed = released([&] { return engine_->flush(); });
    deliver_warnings();
    unwrap(flushed);
  }
  void check() { unwrap(engine_->check()); }
  void plan() {
    const Result<void> planned = released([&] { return engine_->plan(); });
    deliver_warnings();
    unwrap(planned);
  }
  void close() {
    closed_ = true;
    const Result<void> closed = released([&] { return engine_->close(); });
    drop_done();
    deliver_warnings();
    unwrap(closed);
  }

  /// Contents into records that were reserved for them.
  FillingObject fill_archive(const nb::bytes& file_name, const std::vector<FilledTuple>& records) {
    const std::string path = path_of(file_name);
    const std::vector<FilledRecord> filled = filled_records(records);
    return {unwrap(
        released([&] { return ArchiveFilling::begin(*engine_, io_engine_, path, filled); }))};
  }
  IntakeObject take_archives() {
    return {unwrap(released([&] { return ArchiveIntake::open(*engine_, io_engine_); }))};
  }

  nb::dict placement() const { return placement_dict(engine_->placement()); }
  nb::dict stats() const { return stats_dict(engine_->stats()); }
  std::optional<std::string> overflow_advice() const {
    return released([&] { return engine_->overflow_advice(); });
  }
  nb::dict state(std::uint64_t tensor) const {
    return state_dict(unwrap(engine_->state(TensorId{tensor})));
  }

 private:
  static NamedTensor described(TensorId id, const TensorInfo& info) {
    return {to_number(id), std::string(dtype_name(info.dtype)), info.shape};
  }
  static bool is_unknown(const Result<std::shared_ptr<const TensorInfo>>& info) {
    return info.has_error() && info.error().code == make_error_code(Fault::kUnknownTensor);
  }
  /// Where nothing is found, a closed engine says so, and one of a parent process.
  void expect_open() const {
    const auto none = engine_->info(TensorId{});
    if (!is_unknown(none)) {
      unwrap(none);
    }
  }
  /// Calls put(tensor) without the GIL. No Python code comes between the declaration and the put:
  /// what ended the call there would leave a name without a content.
  template <class Put>
  Ticket put_as(NamespaceId space, TensorInfo info, Put put) {
    deliver_warnings();
    const TensorId id = declared_to_put(space, std::move(info));
    const GilRelease release;
    return put(id);
  }
  TensorId declared_to_put(NamespaceId space, TensorInfo info) {
    if (const std::optional<TensorId> known = engine_->find(space, info.name)) {
      const auto was = engine_->info(*known);
      if (was.has_value() && ((*was)->dtype != info.dtype || (*was)->shape != info.shape)) {
        raise(fault(Fault::kInvalidArgument,
                    "another thread has put a tensor '" + info.name +
                        "' of another dtype or shape meanwhile: forget() it first"));
      }
      if (!is_unknown(was)) {
        return *known;
      }
    }
    return unwrap(engine_->declare_to_put(space, std::move(info)));
  }
  const Device* device_of(const std::string& name) const {
    const auto found = devices_.find(name);
    if (found == devices_.end()) {
      raise(fault(Fault::kInvalidArgument, "the engine was not opened for " + name +
                                               ": name it when it is made (devices=)"));
    }
    return found->second.get();
  }
  DeviceTensor on_device(const void* data, std::size_t bytes, const std::string& device,
                         const std::string& dtype, std::optional<std::uintptr_t> stream) const {
    DeviceTensor tensor;
    tensor.device = device_of(device);
    tensor.memory = {reinterpret_cast<std::uintptr_t>(data), bytes};
    tensor.dtype = unwrap(parse_dtype(dtype));
    tensor.stream = stream ? std::optional(StreamId{*stream}) : std::nullopt;
    return tensor;
  }
  /// Arrays that an operation under way reads or fills live until it is done, whatever the caller
  /// does.
  template <class Array>
  Future holding(Array array, Ticket ticket) {
    drop_done();
    Future future{std::move(ticket)};
    if (!future.ticket.done()) {
      future.array = std::make_shared<HeldArray>(std::move(array));
      held_.emplace_back(future.ticket, future.array);
    }
    return future;
  }
  /// To let go of a torch tensor is to let go of the GIL for a moment: the list is in order before.
  void drop_done() {
    const auto done = std::partition(held_.begin(), held_.end(),
                                     [](const auto& entry) { return !entry.first.done(); });
    const std::vector ended(std::make_move_iterator(done), std::make_move_iterator(held_.end()));
    held_.erase(done, held_.end());
    for (const auto& [ticket, array] : ended) {
      array->let_go();
    }
  }
  void close_quietly() noexcept {
    GilRelease release;
    if (engine_) {
      (void)engine_->close();
    }
  }

  std::map<std::string, std::shared_ptr<Device>> devices_;  // before the engine, which uses them
  EngineKind io_engine_ = EngineKind::kAuto;                // also for archives
  std::unique_ptr<SwapEngine> engine_;
  // Touched with the GIL held only.
  std::vector<std::pair<Ticket, std::shared_ptr<HeldArray>>> held_;
  bool closed_ = false;
};

}  // namespace

void bind_engine(nb::module_& module) {
  nb::class_<EngineObject>(module, "SwapEngine", "The engine, by numbers; see penstock.Engine.")
      .def(nb::init<const std::string&, const std::string&, std::uint32_t,
                    const std::vector<std::string>&>(),
           nb::arg("config_json"), nb::arg("origin"), nb::arg("ranks_on_node") = 1,
           nb::arg("devices") = std::vector<std::string>())
      .def("open_namespace", &EngineObject::open_namespace, nb::arg("name"),
           nb::arg("paths") = std::vector<std::string>())
      .def("close_namespace", &EngineObject::close_namespace)
      .def("declare", &EngineObject::declare, nb::arg("space"), nb::arg("name"), nb::arg("dtype"),
           nb::arg("shape"), nb::arg("role") = "param")
      .def("find", &EngineObject::find)
      .def("forget", &EngineObject::forget)
      .def("rename", &EngineObject::rename)
      .def("set_trained", &EngineObject::set_trained)
      .def("tensors", &EngineObject::tensors)
      .def("allocate", &EngineObject::allocate)
      .def("commit", &EngineObject::commit)
      .def("put", &EngineObject::put)
      .def("put_named", &EngineObject::put_named, nb::arg("space"), nb::arg("name"),
           nb::arg("dtype"), nb::arg("shape"), nb::arg("source"))
      .def("get", &EngineObject::get, nb::arg("tensor"), nb::arg("update") = false)
      .def("get_into", &EngineObject::get_into, nb::arg("tensor"), nb::arg("target"))
      .def("get_to_device", &EngineObject::get_to_device, nb::arg("tensor"), nb::arg("target"),
           nb::arg("device"), nb::arg("dtype"), nb::arg("stream") = nb::none())
      .def("put_from_device", &EngineObject::put_from_device, nb::arg("tensor"), nb::arg("source"),
           nb::arg("device"), nb::arg("dtype"), nb::arg("stream") = nb::none())
      .def("put_named_from_device", &EngineObject::put_named_from_device, nb::arg("space"),
           nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), nb::arg("source"),
           nb::arg("device"), nb::arg("source_dtype"))
      .def("device_stream", &EngineObject::device_stream, nb::arg("device"), nb::arg("to_device"))
      .def("prefetch", &EngineObject::prefetch)
      .def("fill_archive", &EngineObject::fill_archive, nb::arg("path"), nb::arg("records"),
           nb::keep_alive<0, 1>())
      .def("take_archives", &EngineObject::take_archives, nb::keep_alive<0, 1>())
      .def("flush", &EngineObject::flush)
      .def("check", &EngineObject::check)
      .def("plan", &EngineObject::plan)
      .def("placement", &EngineObject::placement)
      .def("stats", &EngineObject::stats)
      .def("overflow_advice", &EngineObject::overflow_advice)
      .def("state", &EngineObject::state)
      .def("close", &EngineObject::close);
}

}  // namespace penstock::python
