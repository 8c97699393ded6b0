#include "io/uring_engine.h"

#include <fmt/format.h>
#include <liburing.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "alloc/check.h"
#include "io/event_fd.h"
#include "io/file.h"
#include "io/registered_buffers.h"
#include "io/uring_refusal.h"

namespace penstock {
namespace {

struct RingFlag {
  unsigned bit;
  const char* name;
};

constexpr std::array kRingFlags = {
    RingFlag{IORING_SETUP_SINGLE_ISSUER, "single_issuer"},
    RingFlag{IORING_SETUP_DEFER_TASKRUN, "defer_taskrun"},
    RingFlag{IORING_SETUP_COOP_TASKRUN, "coop_taskrun"},
    RingFlag{IORING_SETUP_SUBMIT_ALL, "submit_all"},
};

// By UringMode; each kernel that refuses one with EINVAL may know the next. TASKRUN_FLAG makes the
// kernel tell in the ring that it holds results back until we enter it.
constexpr std::array<unsigned, 3> kModeFlags = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN |
        IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
    0,
};

// Fewer than any kernel handles at one call (20 on Linux 6.13, all before that).
constexpr std::uint32_t kResultsPerCall = 16;

// What to wait before trying again to submit when the kernel has no memory for a request.
constexpr std::chrono::milliseconds kSubmitPause{1};

// An io_uring that is exited with its owner, once it was made.
struct Ring {
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (made) {
      ::io_uring_queue_exit(&raw);
    }
  }

  io_uring raw{};
  bool made = false;
};

class UringEngine final : public IoEngine {
 public:
  UringEngine(const IoEngineOptions& options, std::unique_ptr<EventFd> event,
              std::unique_ptr<Ring> ring)
      : IoEngine(options),
        event_(std::move(event)),
        owned_ring_(std::move(ring)),
        ring_(owned_ring_->raw),
        buffers_(ring_) {}
  ~UringEngine() override { drain(); }

  int completion_fd() const noexcept override { return event_->fd(); }
  std::string_view name() const noexcept override { return "uring"; }
  std::vector<std::string> features() const override {
    std::vector<std::string> names;
    for (const RingFlag& flag : kRingFlags) {
      if ((ring_.flags & flag.bit) != 0) {
        names.emplace_back(flag.name);
      }
    }
    if (buffers_.usable()) {
      names.emplace_back("registered_buffers");
    }
    return names;
  }

  Result<void> register_memory(std::span<std::byte> memory) override {
    return buffers_.add(memory);
  }
  void unregister_memory(std::span<std::byte> memory) override { buffers_.remove(memory); }

 protected:
  bool issue(Piece& piece) override {
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      kick();  // the queue holds `depth` requests: only ones that the kernel refused can fill it
      sqe = ::io_uring_get_sqe(&ring_);
      if (sqe == nullptr) {
        return false;
      }
    }
    prepare(*sqe, piece);
    return true;
  }

  void kick() override {
    while (::io_uring_sq_ready(&ring_) != 0) {
      const int result = ::io_uring_submit(&ring_);
      if (result == 0 || !can_go_on(result)) {
        // No memory for requests just now, or results that must be read first. They stay queued,
        // and collect() submits them: see to it that it is called.
        event_->notify();
        return;
      }
    }
  }

  void collect(bool block) override {
    event_->clear();
    if (::io_uring_sq_ready(&ring_) != 0) {
      kick();
    }
    while (reap() == 0 && block) {
      if (!can_go_on(::io_uring_submit_and_wait(&ring_, 1))) {
        std::this_thread::sleep_for(kSubmitPause);
      }
    }
  }

 private:
  void prepare(io_uring_sqe& sqe, const Piece& piece) {
    const int fd = piece.op->file->fd();
    const std::optional<int> entry = buffers_.find(piece.data, piece.bytes);
    if (piece.op->kind == IoKind::kRead) {
      if (entry) {
        ::io_uring_prep_read_fixed(&sqe, fd, piece.data, piece.bytes, piece.offset, *entry);
      } else {
        ::io_uring_prep_read(&sqe, fd, piece.data, piece.bytes, piece.offset);
      }
    } else if (entry) {
      ::io_uring_prep_write_fixed(&sqe, fd, piece.data, piece.bytes, piece.offset, *entry);
    } else {
      ::io_uring_prep_write(&sqe, fd, piece.data, piece.bytes, piece.offset);
    }
    ::io_uring_sqe_set_data64(&sqe, piece.index);
  }

  // Calls finish() for all that is there; returns for how many.
  //
  // The kernel keeps deferred results, and those that its queue had no room for, until we enter it,
  // and says so in the ring. That may be an old story: it speaks up just after it has put a result
  // by, when the result may have been fetched already. So calls that bring nothing must end this;
  // but not the first one, since a call handles only so many of the results.
  unsigned reap() {
    unsigned count = reap_queue();
    for (std::uint32_t vain = 0; results_held_back() && vain <= in_flight() / kResultsPerCall;) {
      if (!can_go_on(::io_uring_get_events(&ring_))) {
        break;
      }
      const unsigned more = reap_queue();
      vain = more == 0 ? vain + 1 : 0;
      count += more;
    }
    return count;
  }

  unsigned reap_queue() {
    unsigned count = 0;
    unsigned head = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      finish(static_cast<std::uint32_t>(cqe->user_data), cqe->res);
      ++count;
    }
    ::io_uring_cq_advance(&ring_, count);
    return count;
  }

  bool results_held_back() const noexcept {
    constexpr unsigned kHeldBack = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;
    return (IO_URING_READ_ONCE(*ring_.sq.kflags) & kHeldBack) != 0;
  }

  // What io_uring_enter answered. False: nothing was done, and trying again later may help.
  static bool can_go_on(int result) {
    switch (-result) {
      case EINTR:  // a signal came first; nothing is lost, and trying again at once is right
        return true;
      case EAGAIN:  // no memory for a request
      case EBUSY:   // results have overflown and must be read first
        return false;
      default:
        // EEXIST: another thread than the maker's; EBADF, EFAULT, EINVAL…: a ring of ours is
        // broken.
        PENSTOCK_CHECK(result >= 0, "io_uring_enter errno {}", -result);
        return true;
    }
  }

  std::unique_ptr<EventFd> event_;  // outlives the ring, which writes to it
  std::unique_ptr<Ring> owned_ring_;
  io_uring& ring_;
  RegisteredBuffers buffers_;
};

// 0 or an errno.
int make_ring(Ring& ring, std::uint32_t depth, UringMode newest) {
  int error = EINVAL;
  for (auto mode = static_cast<std::size_t>(newest); mode < kModeFlags.size(); ++mode) {
    error = -::io_uring_queue_init(depth, &ring.raw, kModeFlags[mode]);
    if (error != EINVAL) {
      break;
    }
  }
  ring.made = error == 0;
  return error;
}

// The ring is older than these (Linux 5.1 and 5.6).
bool has_read_and_write(Ring& ring) {
  io_uring_probe* const probe = ::io_uring_get_probe_ring(&ring.raw);
  const bool has = probe != nullptr && ::io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                   ::io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  if (probe != nullptr) {
    ::io_uring_free_probe(probe);
  }
  return has;
}

}  // namespace

Result<std::unique_ptr<IoEngine>> make_uring_engine(const IoEngineOptions& options,
                                                    UringMode newest) {
  PENSTOCK_TRY(check_options(options));
  Result<std::unique_ptr<EventFd>> event = EventFd::make();
  if (!event) {
    return event.error();
  }
  auto ring = std::make_unique<Ring>();
  if (const int error = make_ring(*ring, options.depth, newest); error != 0) {
    return explain_uring_refusal(error, read_io_uring_disabled());
  }
  if (!has_read_and_write(*ring)) {
    return explain_uring_refusal(EINVAL, std::nullopt);
  }
  if (const int result = ::io_uring_register_eventfd(&ring->raw, (*event)->fd()); result < 0) {
    return system_error(-result, "cannot let io_uring tell of results by an eventfd");
  }
  return std::unique_ptr<IoEngine>(
      std::make_unique<UringEngine>(options, std::move(*event), std::move(ring)));
}

}  // namespace penstock
