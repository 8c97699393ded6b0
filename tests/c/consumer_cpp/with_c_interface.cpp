// The C interface from C++: with_c_interface DIRECTORY.

#include <penstock.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <vector>

namespace {

struct Close {
  void operator()(penstock_engine* engine) const { penstock_close(engine); }
};

int fail() {
  std::cerr << penstock_last_error() << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const paths[] = {argc > 1 ? argv[1] : "."};
  penstock_engine_options options{};
  options.struct_size = sizeof options;
  options.paths = paths;
  options.path_count = 1;
  penstock_engine* opened = nullptr;
  if (penstock_open(&options, &opened) != PENSTOCK_OK) {
    return fail();
  }
  const std::unique_ptr<penstock_engine, Close> engine(opened);
  const std::vector<std::uint64_t> shape{1000, 1000};
  penstock_tensor_info info{};
  info.struct_size = sizeof info;
  info.dtype = "f32";
  info.shape = shape.data();
  info.dimensions = shape.size();
  const std::vector<float> weights(1'000'000, 0.5F);
  std::vector<float> back(weights.size());
  const std::size_t bytes = weights.size() * sizeof(float);
  if (penstock_declare(engine.get(), "weight", &info) != PENSTOCK_OK ||
      penstock_put(engine.get(), "weight", weights.data(), bytes) != PENSTOCK_OK ||
      penstock_get_into(engine.get(), "weight", back.data(), bytes) != PENSTOCK_OK) {
    return fail();
  }
  std::cout << (back == weights ? "the same\n" : "not the same\n");
  return back == weights ? 0 : 1;
}
