#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "swap/plan/inventory.h"

namespace penstock {

/// Whether the parameter belongs to the copy of a module that PEFT trains (`modules_to_save`).
bool is_of_copy(std::string_view name) noexcept;

/// The parameter's name in the model before PEFT kept the module's original and made a copy.
std::string name_without_copy(std::string_view name);

/// Whether the parameter is looked up by the numbers of tokens or places.
bool is_embedding(std::string_view name);

/// Whether the parameter belongs to a language model's head, which is used last.
bool is_of_head(std::string_view name) noexcept;

/// The inventory's ties; where it does not know them, those that its names suggest: an encoder and
/// a decoder use the embedding called `shared`, and a model without a head makes logits with its
/// embedding, unless it is made for another task. Pure.
std::vector<TiedName> tied_names(const Inventory& inventory);

}  // namespace penstock
