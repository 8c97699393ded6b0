#include "cli/unloaded_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "alloc/counted.h"
#include "alloc/excerpt.h"
#include "bindings/inventory/input_file.h"
#include "bindings/inventory/json_document.h"

namespace penstock::cli {
namespace {

constexpr std::uint64_t kConfigBytesMax = 16U << 20U;
// What models call the matrix of their tokens, as the last words of its name.
constexpr std::array<std::string_view, 6> kEmbeddings{
    "embed_tokens.weight",   "wte.weight",      "word_embeddings.weight",
    "tok_embeddings.weight", "embed_in.weight", "shared.weight"};

// Whether these are the name's last words.
bool ends_with_words(std::string_view name, std::string_view words) {
  return name == words || (name.ends_with(words) && name[name.size() - words.size() - 1] == '.');
}

// Each model has its own default, so that only an explicit `true` counts.
bool says_tied(const std::string& file) {
  const std::filesystem::path config = std::filesystem::path(file).parent_path() / "config.json";
  const Result<std::string> text = read_text_file(config.string(), kConfigBytesMax);
  if (!text) {
    return false;
  }
  const Result<nlohmann::json> parsed = parse_json(*text, config.string(), Fault::kInvalidArgument);
  if (!parsed || !parsed->is_object()) {
    return false;
  }
  const auto tied = parsed->find("tie_word_embeddings");
  return tied != parsed->end() && tied->is_boolean() && tied->get<bool>();
}

bool is_head_of(const TensorInfo& embedding, const TensorInfo& tensor) {
  return ends_with_words(tensor.name, "lm_head.weight") && tensor.shape == embedding.shape;
}

// GPT-2, GPT-J and GPT-NeoX saved the triangle of ones and its filler as buffers.
bool is_mask(const TensorInfo& tensor) {
  const bool is_triangle = tensor.shape.size() == 4 && tensor.shape[0] == 1 &&
                           tensor.shape[1] == 1 && tensor.shape[2] == tensor.shape[3];
  const bool is_bias =
      ends_with_words(tensor.name, "attn.bias") || ends_with_words(tensor.name, "attention.bias");
  return (is_bias && is_triangle) ||
         (ends_with_words(tensor.name, "masked_bias") && tensor.elements() == 1);
}

template <class IsUnloaded>
std::vector<std::string> leave_out(Inventory& inventory, const IsUnloaded& is_unloaded) {
  std::vector<std::string> names;
  std::erase_if(inventory.tensors, [&](const TensorInfo& tensor) {
    const bool goes = is_unloaded(tensor);
    if (goes) {
      names.push_back(tensor.name);
    }
    return goes;
  });
  return names;
}

std::vector<std::string> leave_out_head(Inventory& inventory, const std::string& file) {
  const auto embedding = std::ranges::find_if(inventory.tensors, [](const TensorInfo& tensor) {
    return std::ranges::any_of(kEmbeddings, [&](std::string_view words) {
      return tensor.shape.size() == 2 && ends_with_words(tensor.name, words);
    });
  });
  if (embedding == inventory.tensors.end() || !says_tied(file)) {
    return {};
  }
  return leave_out(inventory, [source = *embedding](const TensorInfo& tensor) {
    return is_head_of(source, tensor);
  });
}

}  // namespace

std::vector<PlanWarning> leave_out_unloaded(Inventory& inventory, const std::string& file) {
  std::vector<PlanWarning> warnings;
  if (const std::vector<std::string> heads = leave_out_head(inventory, file); !heads.empty()) {
    warnings.push_back(
        {"not-loaded",
         fmt::format("{} stores {}, and config.json beside it says that word embeddings are tied: "
                     "transformers makes one parameter of both, so it is left out (where their "
                     "values differ it keeps both; say \"tie_word_embeddings\": false then)",
                     excerpt(file), excerpt(heads.front()))});
  }
  if (const std::vector<std::string> masks = leave_out(inventory, is_mask); !masks.empty()) {
    warnings.push_back(
        {"not-loaded", fmt::format("{} stores {} such as {}, which transformers 5 does not load; "
                                   "left out",
                                   excerpt(file), counted(masks.size(), "attention mask"),
                                   excerpt(masks.front()))});
  }
  return warnings;
}

}  // namespace penstock::cli
