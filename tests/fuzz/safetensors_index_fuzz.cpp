// The index of a checkpoint in shards, beside one good shard: only files beside the index are
// opened, and what it names is there or is an error.

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "alloc/check.h"
#include "bindings/inventory/safetensors_index.h"
#include "tests/fuzz/sentence.h"

namespace penstock {
namespace {

constexpr std::string_view kHeader = R"({"a":{"dtype":"BF16","shape":[4,2],"data_offsets":[0,16]},)"
                                     R"("b":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})";

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  PENSTOCK_CHECK(file.good(), "cannot write {}", path.string());
}

/// A directory with the shard `s` (tensors a and b), made once a process and removed at its end.
class ShardDirectory {
 public:
  ShardDirectory() {
    const char* const base = std::getenv("PENSTOCK_TMP");
    std::string name = std::string(base != nullptr ? base : "/tmp") + "/penstock-fuzz-XXXXXX";
    PENSTOCK_CHECK(::mkdtemp(name.data()) != nullptr, "no directory {}", name);
    directory_ = name;
    std::string shard(8, '\0');
    shard[0] = static_cast<char>(kHeader.size());
    write_file(directory_ / "s", shard + std::string(kHeader) + std::string(32, '\0'));
  }
  ~ShardDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  ShardDirectory(const ShardDirectory&) = delete;
  ShardDirectory& operator=(const ShardDirectory&) = delete;

  std::string index() const { return (directory_ / "index.json").string(); }

 private:
  std::filesystem::path directory_;
};

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace penstock;
  static_assert(kHeader.size() < 256);
  static const ShardDirectory shards;
  write_file(shards.index(), {reinterpret_cast<const char*>(data), bytes});
  const Result<Checkpoint> checkpoint = load_indexed_checkpoint(shards.index());
  if (checkpoint.has_error()) {
    expect_sentence(checkpoint.error());
    return 0;
  }
  for (const auto& [tensor, file, offset] : checkpoint->tensors) {
    PENSTOCK_CHECK(tensor.name == "a" || tensor.name == "b", "a tensor '{}' from nowhere",
                   tensor.name);
  }
  return 0;
}
