#include "step_kernels.h"

#include <nanobind/stl/string.h>

#include <string>

#include "array_argument.h"
#include "error_translation.h"
#include "gil_release.h"
#include "swap/update/adagrad.h"
#include "swap/update/adam.h"
#include "swap/update/adam_pass.h"
#include "swap/update/kernels.h"
#include "swap/update/lion.h"
#include "swap/update/plain_pass.h"
#include "swap/update/state_chunk.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

std::span<float> elements_of(const Target& array) {
  if (array.dtype() != nb::dtype<float>()) {
    raise(fault(Fault::kInvalidArgument, "masters, and states without a layout, are float32"));
  }
  return {static_cast<float*>(array.data()), array.size()};
}

std::span<std::byte> bytes_of(const Target& array) {
  return {static_cast<std::byte*>(array.data()), array.nbytes()};
}

AccumulatedGradient gradient_of(const Source& array, const std::string& dtype, float factor) {
  return {.bytes = {static_cast<const std::byte*>(array.data()), array.nbytes()},
          .dtype = unwrap(parse_dtype(dtype)),
          .factor = factor};
}

/// Of either moment: fp32 has no codes, and so no signs.
MomentLayout fp32_layout(std::size_t elements) {
  const StateSegment whole{elements, StateFormat::kF32};
  return {Moment::kFirst, {&whole, 1}};
}

class AdamObject {
 public:
  void update(std::uint64_t step, float learning_rate, float beta1, float beta2, float epsilon,
              float weight_decay, bool bias_correction, bool decoupled_decay, nb::handle master,
              nb::handle exp_avg, nb::handle exp_avg_sq, nb::handle gradient,
              const std::string& gradient_dtype, float gradient_factor, unsigned threads,
              const MomentLayout* exp_avg_layout, const MomentLayout* exp_avg_sq_layout) {
    const Target masters = array_of<Target>(master);
    const Target averages = array_of<Target>(exp_avg);
    const Target squares = array_of<Target>(exp_avg_sq);
    const Source gradients = array_of<Source>(gradient);
    const MomentLayout fp32 = fp32_layout(masters.size());
    const AdamStretch stretch{
        .master = elements_of(masters),
        .exp_avg = bytes_of(averages),
        .exp_avg_sq = bytes_of(squares),
        .exp_avg_layout = exp_avg_layout != nullptr ? *exp_avg_layout : fp32,
        .exp_avg_sq_layout = exp_avg_sq_layout != nullptr ? *exp_avg_sq_layout : fp32,
        .gradient = gradient_of(gradients, gradient_dtype, gradient_factor)};
    check(stretch, step);
    const AdamStep now = adam_.step(step, {.learning_rate = learning_rate,
                                           .beta1 = beta1,
                                           .beta2 = beta2,
                                           .epsilon = epsilon,
                                           .weight_decay = weight_decay,
                                           .decoupled_decay = decoupled_decay,
                                           .bias_correction = bias_correction});
    const GilRelease release;
    update_stretch(now, stretch, threads);
  }

 private:
  static void check(const AdamStretch& stretch, std::uint64_t step) {
    if ((step == 0 && !stretch.master.empty()) || !is_whole(stretch)) {
      raise(fault(Fault::kInvalidArgument,
                  "a step of Adam takes equally many masters, moments (float32, or as their "
                  "layouts say) and gradients (float32, bfloat16 or float16), and steps count "
                  "from 1"));
    }
  }

  Adam adam_;  // touched with the GIL held only
};

/// A step of an optimizer with one fp32 state.
void update_arrays(const PlainStep& step, nb::handle master, nb::handle state, nb::handle gradient,
                   const std::string& gradient_dtype, float gradient_factor, unsigned threads) {
  const Target masters = array_of<Target>(master);
  const Target states = array_of<Target>(state);
  const Source gradients = array_of<Source>(gradient);
  const std::span<float> elements = elements_of(masters);
  const std::span<float> state_elements = elements_of(states);
  const AccumulatedGradient accumulated = gradient_of(gradients, gradient_dtype, gradient_factor);
  if (state_elements.size() != elements.size() || !accumulated.has_elements(elements.size())) {
    raise(fault(Fault::kInvalidArgument,
                "a step takes equally many masters, states (float32) and gradients (float32, "
                "bfloat16 or float16)"));
  }
  const GilRelease release;
  update_plain(step, elements, state_elements, accumulated, threads);
}

void lion_update(float learning_rate, float beta1, float beta2, float weight_decay,
                 nb::handle master, nb::handle exp_avg, nb::handle gradient,
                 const std::string& gradient_dtype, float gradient_factor, unsigned threads) {
  const LionOptions options{
      .learning_rate = learning_rate, .beta1 = beta1, .beta2 = beta2, .weight_decay = weight_decay};
  update_arrays(
      [&options](std::span<float> masters, std::span<float> averages,
                 std::span<const float> slopes) { lion_step(options, masters, averages, slopes); },
      master, exp_avg, gradient, gradient_dtype, gradient_factor, threads);
}

void adagrad_update(float learning_rate, float epsilon, float weight_decay, nb::handle master,
                    nb::handle exp_avg_sq, nb::handle gradient, const std::string& gradient_dtype,
                    float gradient_factor, unsigned threads) {
  const AdagradOptions options{
      .learning_rate = learning_rate, .epsilon = epsilon, .weight_decay = weight_decay};
  update_arrays(
      [&options](std::span<float> masters, std::span<float> squares,
                 std::span<const float> slopes) {
        adagrad_step(options, masters, squares, slopes);
      },
      master, exp_avg_sq, gradient, gradient_dtype, gradient_factor, threads);
}

}  // namespace

void bind_step_kernels(nb::module_& module) {
  module.attr("STATE_CHUNK_ELEMENTS") = kStateChunkElements;
  module.attr("STATE_CHUNKS_AHEAD") = kStateChunksAhead;
  module.def("step_instructions", [] { return std::string(to_string(fastest_instructions())); });
  module.def("lion_update", lion_update, nb::arg("learning_rate"), nb::arg("beta1"),
             nb::arg("beta2"), nb::arg("weight_decay"), nb::arg("master"), nb::arg("exp_avg"),
             nb::arg("gradient"), nb::arg("gradient_dtype"), nb::arg("gradient_factor") = 1.0F,
             nb::arg("threads") = 1U);
  module.def("adagrad_update", adagrad_update, nb::arg("learning_rate"), nb::arg("epsilon"),
             nb::arg("weight_decay"), nb::arg("master"), nb::arg("exp_avg_sq"), nb::arg("gradient"),
             nb::arg("gradient_dtype"), nb::arg("gradient_factor") = 1.0F, nb::arg("threads") = 1U);
  nb::class_<AdamObject>(module, "Adam", "Steps of Adam and AdamW, equal to DeepSpeed's CPU Adam.")
      .def(nb::init<>())
      .def("update", &AdamObject::update, nb::arg("step"), nb::arg("learning_rate"),
           nb::arg("beta1"), nb::arg("beta2"), nb::arg("epsilon"), nb::arg("weight_decay"),
           nb::arg("bias_correction"), nb::arg("decoupled_decay"), nb::arg("master"),
           nb::arg("exp_avg"), nb::arg("exp_avg_sq"), nb::arg("gradient"),
           nb::arg("gradient_dtype"), nb::arg("gradient_factor") = 1.0F, nb::arg("threads") = 1U,
           nb::arg("exp_avg_layout").none() = nb::none(),
           nb::arg("exp_avg_sq_layout").none() = nb::none());
}

}  // namespace penstock::python
