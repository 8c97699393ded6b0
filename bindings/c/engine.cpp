// Engines and the tensors that they know.

#include <string>
#include <utility>
#include <vector>

#include "bindings/c/handles.h"
#include "bindings/c/last_error.h"
#include "bindings/c/sized_struct.h"
#include "bindings/deepspeed/config.h"
#include "swap/plan/saturating.h"

namespace penstock::c {
namespace {

// How many warnings of engines this thread is telling a program of just now.
thread_local int warnings_under_way = 0;

struct WarningUnderWay {
  WarningUnderWay() { ++warnings_under_way; }
  ~WarningUnderWay() { --warnings_under_way; }  // also where the program's function throws
  WarningUnderWay(const WarningUnderWay&) = delete;
  WarningUnderWay& operator=(const WarningUnderWay&) = delete;
};

// Rounding and sums of tensors must stay within 64 bits.
constexpr std::uint64_t kTensorBytesMax = std::uint64_t{1} << 56;

Result<Config> read_config(const penstock_engine_options& options) {
  if (options.config_file != nullptr && options.config_json != nullptr) {
    return fault(Fault::kInvalidArgument, "config_file and config_json are given: one is enough");
  }
  if (options.config_file != nullptr) {
    return load_config(options.config_file);
  }
  return parse_config(options.config_json != nullptr ? options.config_json : "{}",
                      options.config_json != nullptr ? "config_json" : "defaults");
}

Result<std::vector<PathConfig>> read_paths(const penstock_engine_options& options) {
  std::vector<PathConfig> paths;
  if (options.path_count != 0) {
    PENSTOCK_TRY(required(options.paths, "paths"));
  }
  for (std::size_t number = 0; number < options.path_count; ++number) {
    const Result<std::string> path =
        required_text(options.paths[number], fmt::format("paths[{}]", number));
    PENSTOCK_TRY(path);
    paths.push_back({*path, std::nullopt, std::nullopt});
  }
  return paths;
}

Result<std::shared_ptr<OpenEngine>> open_engine(const penstock_engine_options& given) {
  if (given.reserved != 0) {
    return fault(Fault::kInvalidArgument, "the field `reserved` of the options is not 0");
  }
  SwapEngineOptions options;
  const Result<Config> config = read_config(given);
  PENSTOCK_TRY(config);
  options.config = config->engine_config();
  options.ranks_on_node = given.ranks_on_node == 0 ? 1 : given.ranks_on_node;
  if (given.warn != nullptr) {
    options.warn = [warn = given.warn, context = given.warn_context](const Warning& warning) {
      const WarningUnderWay under_way;
      warn(context, warning.line().c_str());
    };
  }
  Result<std::vector<PathConfig>> paths = read_paths(given);
  PENSTOCK_TRY(paths);
  Result<std::unique_ptr<SwapEngine>> swap = SwapEngine::open(std::move(options));
  PENSTOCK_TRY(swap);
  const Result<NamespaceId> space = (*swap)->open_namespace("main", *std::move(paths));
  PENSTOCK_TRY(space);
  auto engine = std::make_shared<OpenEngine>();
  engine->swap = *std::move(swap);
  engine->space = *space;
  return engine;
}

Result<TensorInfo> read_tensor_info(const char* name, const penstock_tensor_info* given) {
  const Result<penstock_tensor_info> info = read_struct(given, "tensor's properties");
  PENSTOCK_TRY(info);
  Result<std::string> known_as = required_text(name, "the tensor's name");
  PENSTOCK_TRY(known_as);
  const Result<DType> dtype = parse_dtype(info->dtype != nullptr ? info->dtype : "u8");
  PENSTOCK_TRY(dtype);
  const Result<Role> role = parse_role(info->role != nullptr ? info->role : "param");
  PENSTOCK_TRY(role);
  PENSTOCK_TRY(check_axes(*known_as, info->dimensions));
  if (info->dimensions != 0) {
    PENSTOCK_TRY(required(info->shape, "the tensor's shape"));
  }
  std::uint64_t bytes = dtype_bytes(*dtype);
  for (std::size_t axis = 0; axis < info->dimensions; ++axis) {
    bytes = multiply_saturating(bytes, info->shape[axis]);
    if (bytes > kTensorBytesMax) {
      return fault(Fault::kInvalidArgument,
                   fmt::format("tensor '{}' has more than 2^56 bytes", *known_as));
    }
  }
  TensorInfo tensor;
  tensor.name = *std::move(known_as);
  tensor.dtype = *dtype;
  tensor.shape.assign(info->shape, info->shape + info->dimensions);
  tensor.role = *role;
  if (!tensor.is_whole_bytes()) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("tensor '{}' has {} elements of {}, which end within a byte",
                             tensor.name, tensor.elements(), dtype_name(tensor.dtype)));
  }
  return tensor;
}

}  // namespace
}  // namespace penstock::c

using namespace penstock;
using namespace penstock::c;

int penstock_open(const penstock_engine_options* options, penstock_engine** engine) {
  return guarded([&]() -> Result<void> {
    PENSTOCK_TRY(required(engine, "the place for the engine"));
    *engine = nullptr;
    const Result<penstock_engine_options> given = read_struct(options, "options");
    PENSTOCK_TRY(given);
    Result<std::shared_ptr<OpenEngine>> opened = open_engine(*given);
    PENSTOCK_TRY(opened);
    *engine = engines().add(*std::move(opened));
    return {};
  });
}

int penstock_close(penstock_engine* engine) {
  return guarded([&]() -> Result<void> {
    if (warnings_under_way > 0) {  // it would wait for the operation that warns
      return fault(
          Fault::kInvalidArgument,
          "penstock_close() was called by a `warn` function, which must not call penstock");
    }
    const Result<std::shared_ptr<OpenEngine>> closing = engines().take(engine);
    PENSTOCK_TRY(closing);
    return (*closing)->swap->close();
  });
}

int penstock_declare(penstock_engine* engine, const char* name, const penstock_tensor_info* info) {
  return guarded([&]() -> Result<void> {
    const Result<std::shared_ptr<OpenEngine>> open = engines().find(engine);
    PENSTOCK_TRY(open);
    Result<TensorInfo> tensor = read_tensor_info(name, info);
    PENSTOCK_TRY(tensor);
    PENSTOCK_TRY((*open)->swap->declare((*open)->space, *std::move(tensor)));
    return {};
  });
}

int penstock_forget(penstock_engine* engine, const char* name) {
  return guarded([&]() -> Result<void> {
    const Result<NamedTensor> tensor = find_tensor(engine, name);
    PENSTOCK_TRY(tensor);
    return tensor->engine->swap->forget(tensor->id);
  });
}

int penstock_prefetch(penstock_engine* engine, const char* const* names, size_t count) {
  return guarded([&]() -> Result<void> {
    const Result<std::shared_ptr<OpenEngine>> open = engines().find(engine);
    PENSTOCK_TRY(open);
    if (count != 0) {
      PENSTOCK_TRY(required(names, "the names"));
    }
    std::vector<TensorId> tensors;
    for (std::size_t number = 0; number < count; ++number) {
      const Result<NamedTensor> tensor = find_tensor(engine, names[number]);
      PENSTOCK_TRY(tensor);
      tensors.push_back(tensor->id);
    }
    (*open)->swap->prefetch(tensors);
    return {};
  });
}

int penstock_flush(penstock_engine* engine) {
  return guarded([&]() -> Result<void> {
    const Result<std::shared_ptr<OpenEngine>> open = engines().find(engine);
    PENSTOCK_TRY(open);
    return (*open)->swap->flush();
  });
}

int penstock_plan(penstock_engine* engine) {
  return guarded([&]() -> Result<void> {
    const Result<std::shared_ptr<OpenEngine>> open = engines().find(engine);
    PENSTOCK_TRY(open);
    return (*open)->swap->plan();
  });
}
