#include "bindings/deepspeed/tied_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace penstock {
namespace {

using Words = std::string_view;

// What models call the matrix of their tokens, as the last words of its name.
constexpr std::array<Words, 6> kTokenMatrices{"embed_tokens.weight",    "wte.weight",
                                              "word_embeddings.weight", "tok_embeddings.weight",
                                              "embed_in.weight",        "shared.weight"};
// And the matrix that makes logits of words, which a tied model does not list.
constexpr std::array<Words, 5> kLogits{"lm_head.weight", "lm_head.decoder.weight",
                                       "cls.predictions.decoder.weight", "embed_out.weight",
                                       "output.weight"};
// Modules that a model for another task has instead.
constexpr std::array<Words, 5> kOtherTasks{"score", "classifier", "classification_head",
                                           "qa_outputs", "summary"};
constexpr Words kShared = "shared.weight";
// What PEFT calls a module that it trains a copy of, and the copies, by the adapter's name.
constexpr Words kOriginal = ".original_module.";
constexpr Words kCopy = ".modules_to_save.";

bool ends_with_words(std::string_view name, Words words) noexcept {
  return name == words || (name.ends_with(words) && name[name.size() - words.size() - 1] == '.');
}

bool has_word(std::string_view name, std::string_view word) noexcept {
  for (std::size_t at = name.find(word); at != std::string_view::npos;
       at = name.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) {
      return true;
    }
  }
  return false;
}

// As model.layers.3 does.
bool is_in_list(std::string_view name) noexcept {
  for (std::size_t at = name.find('.'); at != std::string_view::npos; at = name.find('.', at + 1)) {
    if (at + 1 < name.size() && name[at + 1] >= '0' && name[at + 1] <= '9') {
      return true;
    }
  }
  return false;
}

bool makes_logits(const TensorInfo& info) {
  const std::string name = name_without_copy(info.name);
  return !is_in_list(name) && std::ranges::any_of(kLogits, [&name](Words words) {
    return ends_with_words(name, words);
  });
}

bool is_of_other_task(const TensorInfo& info) noexcept {
  const std::string_view first = std::string_view(info.name).substr(0, info.name.find('.'));
  return std::ranges::find(kOtherTasks, first) != kOtherTasks.end();
}

bool has_stack(const Inventory& inventory, std::string_view word) {
  return std::ranges::any_of(inventory.tensors, [word](const TensorInfo& info) {
    return has_word(info.name, word) && !has_word(info.name, "embed_tokens");
  });
}

std::vector<TiedName> guess_ties(const Inventory& inventory) {
  const std::vector<TensorInfo>& tensors = inventory.tensors;
  const auto embedding = std::ranges::find_if(tensors, [](const TensorInfo& info) {
    return info.shape.size() == 2 && std::ranges::any_of(kTokenMatrices, [&info](Words words) {
             return ends_with_words(info.name, words);
           });
  });
  if (embedding == tensors.end()) {
    return {};
  }
  std::vector<TiedName> ties;
  if (const std::string& name = embedding->name; ends_with_words(name, kShared)) {
    for (const std::string_view stack : {"encoder", "decoder"}) {
      if (has_stack(inventory, stack)) {
        std::string tied = name.substr(0, name.size() - kShared.size());
        tied.append(stack).append(".embed_tokens.weight");
        ties.push_back({std::move(tied), name});
      }
    }
  }
  if (std::ranges::none_of(tensors, makes_logits) &&
      std::ranges::none_of(tensors, is_of_other_task)) {
    ties.push_back({"lm_head.weight", embedding->name});
  }
  return ties;
}

}  // namespace

bool is_of_copy(std::string_view name) noexcept {
  return name.find(kCopy) != std::string_view::npos;
}

std::string name_without_copy(std::string_view name) {
  for (const Words wrapper : {kOriginal, kCopy}) {
    if (const std::size_t at = name.find(wrapper); at != std::string_view::npos) {
      std::string_view own = name.substr(at + wrapper.size());
      if (wrapper == kCopy) {
        own.remove_prefix(own.find('.') + 1);  // behind the adapter's name, where there is one
      }
      return fmt::format("{}.{}", name.substr(0, at), own);
    }
  }
  return std::string(name);
}

bool is_embedding(std::string_view listed) {
  const std::string name = name_without_copy(listed);
  if (is_of_head(name)) {
    return false;
  }
  const std::string_view module = std::string_view(name).substr(0, name.rfind('.'));
  const std::string_view last = module.substr(module.rfind('.') + 1);
  return last.find("embed") != std::string_view::npos || last == "wte" || last == "wpe" ||
         last == "shared";
}

bool is_of_head(std::string_view name) noexcept {
  return has_word(name, "lm_head") || has_word(name, "embed_out") ||
         (ends_with_words(name, "output.weight") && !is_in_list(name));
}

std::vector<TiedName> tied_names(const Inventory& inventory) {
  return inventory.ties ? *inventory.ties : guess_ties(inventory);
}

}  // namespace penstock
