// Tensors from a drive in a program that lives on Boost.Asio: a coroutine fetches layer after layer
// while it computes, and waits for a tensor as it would wait for a socket.
//
//   async_get DIRECTORY          a directory on the drive to swap to; nothing is left there
//
// To build it elsewhere: C++20, and link penstock::swap.

#include <fmt/format.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <future>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "swap/async_get.h"
#include "swap/swap_engine.h"

namespace asio = boost::asio;
using penstock::Lease;
using penstock::SwapEngine;
using penstock::TensorId;

namespace {

constexpr std::size_t kLayers = 8;
constexpr std::size_t kNumbers = 1 << 20;  // 4 MiB a layer

// `.value()` throws penstock::PenstockException, whose text names tensor, path and remedy; ask
// has_value() instead to go on without exceptions.
std::vector<TensorId> write_layers(SwapEngine& engine, const std::string& directory) {
  const penstock::NamespaceId space =
      engine.open_namespace("model", {{directory, std::nullopt, std::nullopt}}).value();
  std::vector<TensorId> layers;
  for (std::size_t index = 0; index < kLayers; ++index) {
    const std::vector<std::uint32_t> numbers(kNumbers, static_cast<std::uint32_t>(index + 1));
    layers.push_back(engine
                         .declare(space, {fmt::format("layer.{}.weight", index),
                                          penstock::DType::kI32,
                                          {kNumbers},
                                          penstock::Role::kParam})
                         .value());
    engine.put(layers.back(), std::as_bytes(std::span(numbers))).wait().value();
  }
  return layers;
}

std::uint64_t sum(const Lease& lease) {
  const std::span numbers(reinterpret_cast<const std::uint32_t*>(lease.data()), kNumbers);
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

// One layer after the other. The lease holds its memory until it goes out of scope, and the engine
// reads ahead what prefetch() announced.
asio::awaitable<std::uint64_t> forward(SwapEngine& engine, const std::vector<TensorId>& layers) {
  engine.prefetch(layers);
  std::uint64_t total = 0;
  for (const TensorId layer : layers) {
    const Lease weight = (co_await async_get(engine, layer, asio::use_awaitable)).value();
    total += sum(weight);
  }
  co_return total;
}

// Two at once.
asio::awaitable<std::uint64_t> both(SwapEngine& engine, TensorId first, TensorId second) {
  using namespace asio::experimental::awaitable_operators;
  const auto [one, two] = co_await (async_get(engine, first, asio::use_awaitable) &&
                                    async_get(engine, second, asio::use_awaitable));
  co_return sum(one.value()) + sum(two.value());
}

std::uint64_t run(const std::string& directory) {
  const auto engine = SwapEngine::open({}).value();
  const std::vector<TensorId> layers = write_layers(*engine, directory);
  asio::io_context context;
  std::future<std::uint64_t> total =
      asio::co_spawn(context, forward(*engine, layers), asio::use_future);
  std::future<std::uint64_t> ends =
      asio::co_spawn(context, both(*engine, layers.front(), layers.back()), asio::use_future);
  context.run();
  fmt::print("all layers {}, first and last {}\n", total.get(), ends.get());
  // Without a coroutine: a future, or a callback that is given a Result<Lease>.
  const Lease first = async_get(*engine, layers.front(), asio::use_future).get().value();
  return sum(first);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: async_get DIRECTORY\n");
    return 2;
  }
  try {
    fmt::print("first layer {}\n", run(argv[1]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "async_get: {}\n", error.what());
    return 1;
  }
}
