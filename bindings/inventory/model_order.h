#pragma once

#include <string_view>

namespace penstock {

/// Whether the parameter called `a` is built and used before the one called `b`, as the models of
/// transformers 5 have it: the embedding, the layers by number, the head; within a layer attention
/// before the MLP and norms behind them; q, k, v, o; gate, up, down. Words that are not known are
/// in natural order. Training steps parameters in the order of building, which the header of a
/// safetensors file does not keep. A strict total order.
bool model_order_less(std::string_view a, std::string_view b) noexcept;

}  // namespace penstock
