// Puts contents into a durable store for ever, and says after each flush how many rounds are safe:
// to be killed by swap_engine_kill_test.

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/swap/durable_rounds.h"

int main(int argc, char** argv) {
  using namespace penstock;
  if (argc != 2) {
    return 2;
  }
  auto engine = open_durable_engine();
  const Result<NamespaceId> space = engine->open_namespace("rounds", {{argv[1], {}, {}}});
  if (space.has_error()) {
    return 3;
  }
  for (std::uint32_t round = newest_round(*engine, *space) + 1;; ++round) {
    for (std::uint32_t tensor = 0; tensor < kRoundTensors; ++tensor) {
      const std::optional<TensorId> known = engine->find(*space, round_tensor_name(tensor));
      const TensorId id = known ? *known : engine->declare(*space, round_tensor(tensor)).value();
      if (engine->put(id, round_content(tensor, round)).wait().has_error()) {
        return 4;
      }
    }
    if (engine->flush().has_error()) {
      return 5;
    }
    // One write a line: the reader gets whole numbers, even when this process is killed.
    const std::string line = std::to_string(round) + "\n";
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) {
      return 6;
    }
  }
}
