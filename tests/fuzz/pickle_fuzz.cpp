// The pickle of a checkpoint: read as it is, walked, and as the data.pkl of an archive whose other
// records are sound, asked for all that inspect and verify want to know.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "alloc/check.h"
#include "bindings/archive/crc32.h"
#include "bindings/deepspeed/model_shard.h"
#include "bindings/deepspeed/optimizer_shard.h"
#include "bindings/deepspeed/pickle_reader.h"
#include "bindings/deepspeed/tensor_walk.h"
#include "bindings/deepspeed/torch_archive.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/sentence.h"

namespace {

using namespace penstock;

template <class Number>
std::string number(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Adds a record, and its entry to the directory.
void add_record(std::string_view name, std::string_view content, std::string& file,
                std::string& directory) {
  const auto bytes = static_cast<std::uint32_t>(content.size());
  const std::string facts = number(crc32(0, std::as_bytes(std::span(content)))) + number(bytes) +
                            number(bytes) + number(static_cast<std::uint16_t>(name.size())) +
                            number<std::uint16_t>(0);
  directory += "PK\x01\x02" + number<std::uint32_t>(0) + number<std::uint64_t>(0) + facts +
               number<std::uint16_t>(0) + number<std::uint64_t>(0) +
               number(static_cast<std::uint32_t>(file.size())) + std::string(name);
  file += "PK\x03\x04" + number<std::uint16_t>(0) + number<std::uint64_t>(0) + facts +
          std::string(name) + std::string(content);
}

std::string archive_of(std::string_view pickle) {
  std::string file;
  std::string directory;
  add_record("a/data.pkl", pickle, file, directory);
  add_record("a/data/0", std::string(64, 'x'), file, directory);
  const auto offset = static_cast<std::uint32_t>(file.size());
  const auto bytes = static_cast<std::uint32_t>(directory.size());
  return file + directory + "PK\x05\x06" + number<std::uint32_t>(0) + number<std::uint16_t>(2) +
         number<std::uint16_t>(2) + number(bytes) + number(offset) + number<std::uint16_t>(0);
}

void ask(const TorchArchive& archive, std::size_t bytes) {
  std::size_t tensors = 0;
  archive.for_each_tensor([&](const std::string& place, const ArchivedTensor& tensor) {
    ++tensors;
    (void)group_at(place);
    const std::string problem = archive.problem(tensor);
    PENSTOCK_CHECK(!problem.empty() || tensor.record_bytes <= bytes + 64,
                   "{} bytes are claimed of an archive of {}", tensor.record_bytes, bytes);
  });
  PENSTOCK_CHECK(tensors <= bytes, "{} tensors in {} bytes", tensors, bytes);
  const ModelShard model = read_model_shard(archive);
  PENSTOCK_CHECK(model.tensors.size() <= bytes, "{} tensors in {} bytes", model.tensors.size(),
                 bytes);
  (void)read_optimizer_shard(archive);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const Result<PickleDocument> pickle = read_pickle({begin, begin + bytes}, "data.pkl");
  if (pickle.has_error()) {
    expect_sentence(pickle.error());
    return 0;
  }
  PENSTOCK_CHECK(pickle->size() <= bytes + 1, "{} values of {} bytes", pickle->size(), bytes);
  TensorWalk walk(*pickle);
  while (const std::optional<PickleRef> value = walk.next()) {
    PENSTOCK_CHECK(walk.place(*value).size() <= 4096, "a place of {} bytes",
                   walk.place(*value).size());
  }
  const std::string whole = archive_of({reinterpret_cast<const char*>(data), bytes});
  const MemoryFile file({reinterpret_cast<const std::uint8_t*>(whole.data()), whole.size()});
  const Result<TorchArchive> archive = TorchArchive::read(file.path());
  PENSTOCK_CHECK(archive.has_value(), "not taken again: {}", archive.error().message);
  ask(*archive, bytes);
  return 0;
}
