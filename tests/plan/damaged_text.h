#pragma once

#include <random>
#include <string>

namespace penstock::test {

/// Calls `parse` with `rounds` versions of `text`, each with a few bytes changed, gone or doubled.
template <class Parse>
void try_mutations(const std::string& text, int rounds, Parse parse) {
  for (int seed = 0; seed < rounds; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::string damaged = text;
    for (std::size_t k = 1 + random() % 4; k > 0 && !damaged.empty(); --k) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, 1 + random() % 8);
          break;
        case 2:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 32));
          break;
        default:
          damaged[at] = "0123456789{}[]\",:-e."[random() % 20];
      }
    }
    parse(damaged);
  }
}

}  // namespace penstock::test
