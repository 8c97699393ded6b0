#include "bindings/inventory/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "bindings/inventory/checkpoint.h"
#include "bindings/inventory/input_file.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPartLettersMax = 96;        // of the hub, for either part of a name
constexpr std::uint64_t kReferenceBytesMax = 256;  // a commit has 40 letters

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// huggingface_hub/utils/_validators.py, validate_repo_id().
bool is_name_part(std::string_view part) {
  return !part.empty() && part.size() <= kPartLettersMax && is_word(part.front()) &&
         is_word(part.back()) && part.find("--") == std::string_view::npos &&
         part.find("..") == std::string_view::npos &&
         std::ranges::all_of(part, [](char c) { return is_word(c) || c == '-' || c == '.'; });
}

// The variable's value, with the home directory for a leading ~; empty where it is not set.
std::string directory_in(const char* variable) {
  const char* found = std::getenv(variable);
  std::string value = found == nullptr ? "" : found;
  const char* home = std::getenv("HOME");
  if (home != nullptr && (value == "~" || value.starts_with("~/"))) {
    value.replace(0, 1, home);
  }
  return value;
}

// huggingface_hub/constants.py.
fs::path cache_directory() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::string given = directory_in(variable); !given.empty()) {
      return given;
    }
  }
  if (const std::string given = directory_in("HF_HOME"); !given.empty()) {
    return fs::path(given) / "hub";
  }
  if (const std::string given = directory_in("XDG_CACHE_HOME"); !given.empty()) {
    return fs::path(given) / "huggingface" / "hub";
  }
  const char* home = std::getenv("HOME");
  return fs::path(home == nullptr ? "/" : home) / ".cache" / "huggingface" / "hub";
}

std::string folder_of(std::string_view name) {
  std::string folder = "models--" + std::string(name);
  if (const std::size_t slash = folder.find('/'); slash != std::string::npos) {
    folder.replace(slash, 1, "--");
  }
  return folder;
}

std::string download_of(std::string_view name) {
  return fmt::format("`hf download {} --include \"*.safetensors*\" config.json`", name);
}

Error not_there(const std::string& path, std::string message) {
  return fault(Fault::kInvalidArgument, std::move(message), path);
}

// The commit that `main` stood for when it was downloaded; empty: nothing says it.
std::string commit_of(const fs::path& model) {
  const Result<std::string> text = read_text_file(model / "refs" / "main", kReferenceBytesMax);
  std::string commit = text ? *text : std::string();
  while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back())) != 0) {
    commit.pop_back();
  }
  const bool is_hex = std::ranges::all_of(
      commit, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
  return is_hex ? commit : std::string();
}

// Whether there is something that load_inventory() could read, or that it would name a problem of.
bool has_weights(const fs::path& snapshot) {
  std::error_code error;
  for (fs::directory_iterator entry(snapshot, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_safetensors(entry->path().filename().string())) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_hub_name(std::string_view text) {
  constexpr std::array<std::string_view, 6> kFiles{".json", ".jsonl", ".safetensors",
                                                   ".bin",  ".pt",    ".git"};
  if (std::ranges::any_of(kFiles, [text](std::string_view end) { return text.ends_with(end); })) {
    return false;
  }
  const std::size_t slash = text.find('/');
  return slash == std::string_view::npos
             ? is_name_part(text)
             : is_name_part(text.substr(0, slash)) && is_name_part(text.substr(slash + 1));
}

Result<std::string> find_in_hub_cache(std::string_view name) {
  const fs::path model = cache_directory() / folder_of(name);
  const std::string commit = commit_of(model);
  const fs::path snapshot = model / "snapshots" / commit;
  std::error_code error;
  if (commit.empty() || !fs::is_directory(snapshot, error)) {
    return not_there(model.string(),
                     fmt::format("there is no file or directory {}, and no model of that name in "
                                 "Hugging Face's cache at {}; {} brings it there",
                                 name, model.string(), download_of(name)));
  }
  if (has_weights(snapshot)) {
    return snapshot.string();
  }
  const bool has_config = fs::exists(snapshot / "config.json", error);
  return not_there(snapshot.string(),
                   fmt::format("{} is in Hugging Face's cache without weights ({} has no "
                               ".safetensors file); {} brings them{}",
                               name, snapshot.string(), download_of(name),
                               has_config ? fmt::format(", and `python -m penstock.inventory {} -o "
                                                        "inventory.json` does without",
                                                        snapshot.string())
                                          : std::string()));
}

}  // namespace penstock
