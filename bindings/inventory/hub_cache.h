#pragma once

#include <string>
#include <string_view>

#include "alloc/result.h"

namespace penstock {

/// Whether `text` can be a model's name on Hugging Face's hub: `gpt2`, `Qwen/Qwen3-0.6B`. What ends
/// like a file of a model (`.json`, `.safetensors`) is none.
bool is_hub_name(std::string_view text);

/// The directory in Hugging Face's cache with the files of a model that was downloaded: what
/// `refs/main` names below HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub, of which the first that is set
/// counts. Only looks at files. Errors: Fault::kInvalidArgument where the model or its weights are
/// not there, with the place and the command that brings them.
Result<std::string> find_in_hub_cache(std::string_view name);

}  // namespace penstock
