// The engine itself: with_libraries DIRECTORY.

#include <iostream>
#include <utility>
#include <vector>

#include "bindings/deepspeed/config.h"
#include "swap/swap_engine.h"

using penstock::Result;

namespace {

Result<bool> comes_back(const char* directory) {
  const auto config = penstock::parse_config(R"({"penstock": {"integrity": "full"}})", "config");
  PENSTOCK_TRY(config);
  penstock::SwapEngineOptions options;
  options.config = config->engine_config();
  Result<std::unique_ptr<penstock::SwapEngine>> engine =
      penstock::SwapEngine::open(std::move(options));
  PENSTOCK_TRY(engine);
  const auto space = (*engine)->open_namespace("main", {{directory, {}, {}}});
  PENSTOCK_TRY(space);
  const std::vector<std::byte> content(1'000'001, std::byte{42});
  const auto tensor = (*engine)->declare(
      *space, {"weight", penstock::DType::kU8, {content.size()}, penstock::Role::kParam});
  PENSTOCK_TRY(tensor);
  PENSTOCK_TRY((*engine)->put(*tensor, content).wait());
  const Result<penstock::Lease> lease = (*engine)->get(*tensor).lease();
  PENSTOCK_TRY(lease);
  return std::vector<std::byte>(lease->span().begin(), lease->span().end()) == content;
}

}  // namespace

int main(int argc, char** argv) {
  const Result<bool> same = comes_back(argc > 1 ? argv[1] : ".");
  if (!same) {
    std::cerr << same.error().message << "\n";
    return 1;
  }
  std::cout << (*same ? "the same\n" : "not the same\n");
  return *same ? 0 : 1;
}
