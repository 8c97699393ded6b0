#pragma once

#include <optional>
#include <string>

namespace penstock::cli {

/// What `inspect` and `verify` do with a directory that is, or holds, a checkpoint of DeepSpeed:
/// the exit status. Nothing where it is something else, and nothing was printed.
std::optional<int> inspect_checkpoint(const std::string& directory, bool as_json);
std::optional<int> verify_checkpoint_at(const std::string& directory, bool as_json);

}  // namespace penstock::cli
