#include "bindings/deepspeed/optimizer_states.h"

#include <nlohmann/json.hpp>
#include <string>

#include "alloc/lower_case.h"
#include "bindings/deepspeed/config_value.h"

namespace penstock {
namespace {

bool is_set(const nlohmann::json& params, std::string_view key) {
  const auto found = params.find(std::string(key));
  return found != params.end() && is_truthy(*found);
}

}  // namespace

std::vector<OptimizerState> states_of_optimizer(std::string_view type,
                                                const nlohmann::json& params) {
  // DeepSpeed's own by its name in any case, torch's as they are named.
  const std::string own = lower_case(std::string(type));
  std::vector<OptimizerState> states;
  if (own == "lion") {
    states = {{"exp_avg"}, {"exp_avg_sq", false}};
  } else if (own == "adagrad") {
    states = {{"exp_avg_sq"}};
  } else if (type == "Adadelta") {
    states = {{"square_avg"}, {"acc_delta"}};
  } else if (type == "Adamax") {
    states = {{"exp_avg"}, {"exp_inf"}};
  } else if (type == "RMSprop") {
    states = {{"square_avg"}};
  } else if (type == "ASGD") {
    states = {{"ax"}};
  } else if (type == "Adafactor") {
    states = {{"variance"}};  // of one axis, as all partitions have
  } else if (type != "SGD") {
    states = adam_states();
  }
  const bool is_torch_adam = (own == "adam" || own == "adamw") && is_set(params, "torch_adam");
  if (is_torch_adam && is_set(params, "amsgrad")) {
    states.push_back({"max_exp_avg_sq"});
  }
  if ((type == "SGD" || type == "RMSprop") && is_set(params, "momentum")) {
    states.push_back({"momentum_buffer"});
  }
  if (type == "RMSprop" && is_set(params, "centered")) {
    states.push_back({"grad_avg"});
  }
  return states;
}

}  // namespace penstock
