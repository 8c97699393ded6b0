#include "bindings/inventory/tensor_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/inventory/json_document.h"

namespace penstock {
namespace {

using nlohmann::json;

Error bad_tensor(std::string problem) {
  return fault(Fault::kInvalidArgument, std::move(problem));
}

Result<std::vector<std::uint64_t>> read_shape(const json& entry) {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array()) {
    return bad_tensor("has no shape (a list of numbers)");
  }
  std::vector<std::uint64_t> shape;
  shape.reserve(found->size());
  for (const json& side : *found) {
    if (!side.is_number_unsigned()) {
      return bad_tensor(
          fmt::format("has {} in its shape, where only whole numbers from 0 on "
                      "can be",
                      describe_json(side)));
    }
    shape.push_back(side.get<std::uint64_t>());
  }
  return shape;
}

}  // namespace

Result<TensorInfo> read_tensor_json(const std::string& name, const json& entry) {
  if (!entry.is_object()) {
    return bad_tensor(fmt::format("is {}, not an object", describe_json(entry)));
  }
  TensorInfo info;
  info.name = name;
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) {
    return bad_tensor("has no dtype (a text such as \"bf16\")");
  }
  Result<DType> parsed_dtype = parse_dtype(dtype->get_ref<const std::string&>());
  if (!parsed_dtype) {
    return bad_tensor("has a dtype that is not known: " + parsed_dtype.error().message);
  }
  info.dtype = *parsed_dtype;
  Result<std::vector<std::uint64_t>> shape = read_shape(entry);
  PENSTOCK_TRY(shape);
  info.shape = std::move(*shape);
  if (!info.fits_63_bits()) {
    return bad_tensor(
        fmt::format("has a shape of more than 2^63 bytes: [{}]", fmt::join(info.shape, ", ")));
  }
  if (!info.is_whole_bytes()) {
    return bad_tensor(fmt::format("has {} elements of {}, which end within a byte", info.elements(),
                                  dtype_name(info.dtype)));
  }
  return info;
}

Result<TensorInfo> read_described_tensor(const std::string& name, const json& entry) {
  Result<TensorInfo> info = read_tensor_json(name, entry);
  PENSTOCK_TRY(info);
  if (const auto role = entry.find("role"); role != entry.end()) {
    if (!role->is_string()) {
      return bad_tensor(fmt::format("has {} as its role, not a text", describe_json(*role)));
    }
    Result<Role> parsed_role = parse_role(role->get_ref<const std::string&>());
    if (!parsed_role) {
      return bad_tensor("has a role that is not known: " + parsed_role.error().message);
    }
    info->role = *parsed_role;
  }
  if (const auto trained = entry.find("trainable"); trained != entry.end()) {
    if (!trained->is_boolean()) {
      return bad_tensor(
          fmt::format("has {} as trainable, not true or false", describe_json(*trained)));
    }
    info->is_trained = trained->get<bool>();
  }
  return info;
}

Error tensor_error(const std::string& tensor, Error error) {
  error.message = fmt::format("{} {}", tensor, error.message);
  return error;
}

}  // namespace penstock
