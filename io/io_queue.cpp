#include "io/io_queue.h"

#include <boost/system/system_error.hpp>
#include <chrono>
#include <system_error>
#include <utility>

#include "alloc/check.h"
#include "io/io_queue_pump.h"
#include "io/loop_probe.h"

namespace penstock {

IoQueue::IoQueue() = default;

IoQueue::~IoQueue() {
  if (pump_ != nullptr) {
    stop();
  }
}

Result<std::unique_ptr<IoQueue>> IoQueue::start(EngineKind kind, const IoEngineOptions& options) {
  return start_thread([&](std::vector<EngineCandidate>& refusals) {
    return make_engine(kind, options, &refusals);
  });
}

Result<std::unique_ptr<IoQueue>> IoQueue::start(const MakeEngine& make,
                                                const IoEngineOptions& options) {
  return start_thread([&](std::vector<EngineCandidate>&) { return make(options); });
}

Result<std::unique_ptr<IoQueue>> IoQueue::start_thread(
    const std::function<Result<std::unique_ptr<IoEngine>>(std::vector<EngineCandidate>&)>& make) {
  PENSTOCK_TRY(probe_loop_calls());
  std::unique_ptr<IoQueue> queue(new IoQueue);
  try {
    queue->loop_ = std::make_unique<EventLoop>("penstock-io");
    queue->pump_ = std::make_unique<Pump>(*queue->loop_);
  } catch (const std::system_error& error) {
    return system_error(error.code().value(),
                        "cannot start the I/O loop's thread (`ulimit -u` limits threads)");
  } catch (const boost::system::system_error& error) {
    return system_error(error.code().value(),
                        "cannot start the I/O loop (`ulimit -n` limits open files)");
  }
  Result<std::string_view> name = std::string_view();
  queue->pump_->call([&] { name = queue->pump_->open(make(queue->refusals_)); });
  if (!name) {
    return name.error();
  }
  queue->engine_name_ = *name;
  return queue;
}

std::unique_ptr<IoQueue> IoQueue::start_for_caller(std::unique_ptr<IoEngine> engine) {
  std::unique_ptr<IoQueue> queue(new IoQueue);
  queue->engine_name_ = engine->name();
  queue->loop_ = std::make_unique<EventLoop>();
  queue->pump_ = std::make_unique<Pump>(*queue->loop_);
  queue->pump_->use(std::move(engine));
  return queue;
}

IoOp::TimePoint IoQueue::now() const noexcept {
  const IoEngine* const engine = pump_->engine();
  return engine == nullptr ? std::chrono::steady_clock::now() : engine->now();
}

bool IoQueue::step() {
  return pump_->step();
}

void IoQueue::submit(IoOp& op) {
  IoOp* const one = &op;
  pump_->submit({&one, 1});
}

void IoQueue::submit(std::span<IoOp* const> ops) {
  pump_->submit(ops);
}

void IoQueue::promote(IoOp& op) {
  pump_->promote(op);
}

void IoQueue::cancel(IoOp& op) {
  pump_->cancel(op);
}

void IoQueue::on_notify(std::function<void()> function) {
  pump_->on_notify(std::move(function));
}

void IoQueue::notify() noexcept {
  pump_->notify();
}

Result<void> IoQueue::register_memory(std::span<std::byte> memory) {
  return pump_->ask_engine<Result<void>>(
      [memory](IoEngine& engine) { return engine.register_memory(memory); },
      fault(Fault::kClosed, "cannot register memory with an I/O queue that was stopped"));
}

void IoQueue::unregister_memory(std::span<std::byte> memory) {
  pump_->ask_engine<bool>(
      [memory](IoEngine& engine) {
        engine.unregister_memory(memory);
        return true;
      },
      false);
}

Result<void> IoQueue::run_on(std::span<const std::uint32_t> cpus) {
  return loop_->run_on(cpus);
}

void IoQueue::stop() {
  PENSTOCK_CHECK(!on_loop_thread(), "an I/O queue cannot be stopped from a callback");
  pump_->request_stop();
  while (caller_drives() && step()) {
  }
  loop_->stop();
}

IoStats IoQueue::stats() const {
  return pump_->stats();
}

}  // namespace penstock
