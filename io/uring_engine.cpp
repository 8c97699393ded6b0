#include "io/uring_engine.h"

#include <fmt/format.h>
#include <liburing.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "alloc/check.h"
#include "alloc/process_mark.h"
#include "io/event_fd.h"
#include "io/file.h"
#include "io/own_descriptors.h"
#include "io/registered_buffers.h"
#include "io/transfer_threads.h"
#include "io/uring_refusal.h"

namespace penstock {
namespace {

struct NamedBit {
  unsigned bit;
  const char* name;
};

// What we asked for and were granted.
constexpr std::array kRingFlags = {
    NamedBit{IORING_SETUP_SINGLE_ISSUER, "single_issuer"},
    NamedBit{IORING_SETUP_DEFER_TASKRUN, "defer_taskrun"},
    NamedBit{IORING_SETUP_COOP_TASKRUN, "coop_taskrun"},
    NamedBit{IORING_SETUP_SUBMIT_ALL, "submit_all"},
};

// What this kernel's rings can do anyway.
constexpr std::array kRingFeatures = {
    NamedBit{IORING_FEAT_NODROP, "nodrop"},
    NamedBit{IORING_FEAT_EXT_ARG, "ext_arg"},
};

void append_names(std::span<const NamedBit> bits, unsigned set, std::vector<std::string>& names) {
  for (const NamedBit& named : bits) {
    if ((set & named.bit) != 0) {
      names.emplace_back(named.name);
    }
  }
}

// Deferred results come by io_uring_enter only, so a filter that forbids it while requests are in
// flight keeps them for ever (FAULTS.md). Cooperative ones would come, but as signals do: they
// interrupt whatever the loop's thread waits in, a file system's calls and a GPU's included.
//
// By UringMode; each kernel that refuses one with EINVAL may know the next. With
// TASKRUN_FLAG the ring shows that the kernel holds results back until we enter it.
constexpr std::array<unsigned, 3> kModeFlags = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN |
        IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
    0,
};

// Fewer than any kernel handles at one call (20 on Linux 6.13, all before that).
constexpr std::uint32_t kResultsPerCall = 16;

// An io_uring that is exited with its owner, once it was made. A forked child has nothing of it:
// the memory that is pinned for it would stay so.
struct Ring {
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (made && !process.elsewhere()) {
      OwnDescriptors::of_process().close(raw.ring_fd, [this] { ::io_uring_queue_exit(&raw); });
    }
  }
  void keep_from_children() {
    (void)::io_uring_ring_dontfork(&raw);  // its memory is a copy of the descriptor too
    OwnDescriptors::of_process().add(raw.ring_fd);
  }

  io_uring raw{};
  bool made = false;
  ProcessMark process;
};

class UringEngine final : public IoEngine {
 public:
  UringEngine(const IoEngineOptions& options, std::unique_ptr<EventFd> event,
              std::unique_ptr<Ring> ring)
      : IoEngine(options),
        event_(std::move(event)),
        owned_ring_(std::move(ring)),
        ring_(owned_ring_->raw),
        buffers_(ring_) {
    waiting_.reserve(options.depth);
    refused_.reserve(options.depth);
  }
  ~UringEngine() override { drain(); }

  int completion_fd() const noexcept override { return event_->fd(); }
  std::string_view name() const noexcept override { return "uring"; }
  std::vector<std::string> features() const override {
    std::vector<std::string> names;
    append_names(kRingFlags, ring_.flags, names);
    append_names(kRingFeatures, ring_.features, names);
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
  std::uint64_t request_bytes_max(const std::byte* data) const noexcept override {
    return buffers_.bytes_to_end(data);
  }

  bool issue(Piece& piece) override {
    if (is_shut_) {
      refused_.push_back(piece.index);
      return true;
    }
    io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
    if (sqe == nullptr) {
      kick();  // the queue holds `depth` requests: only ones that the kernel refused can fill it
      sqe = ::io_uring_get_sqe(&ring_);
      if (sqe == nullptr || is_shut_) {
        return false;
      }
    }
    prepare(*sqe, piece);
    waiting_.push_back(piece.index);
    return true;
  }

  void kick() override {
    while (!is_shut_ && !waiting_.empty()) {
      const int result = ::io_uring_submit(&ring_);
      taken(result);
      if (result == 0 || !can_go_on(result)) {
        // No memory for requests just now, or results that must be read first. They stay queued,
        // and collect() submits them: see to it that it is called.
        event_->notify();
        return;
      }
    }
    if (!refused_.empty()) {
      event_->notify();
    }
  }

  void collect(bool block) override {
    event_->clear();
    kick();
    while (reap() + transfer_refused() == 0 && block) {
      const int result = is_shut_ ? -EAGAIN : ::io_uring_submit_and_wait(&ring_, 1);
      taken(result);
      if (!can_go_on(result)) {
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
    for (std::uint32_t vain = 0;
         !is_shut_ && results_held_back() && vain <= in_flight() / kResultsPerCall;) {
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
      const auto index = static_cast<std::uint32_t>(cqe->user_data);
      finish(index, cqe->res == -ECANCELED ? transfer_here(index) : cqe->res);
      ++count;
    }
    ::io_uring_cq_advance(&ring_, count);
    return count;
  }

  // A thread of the kernel carries a request that would block. Where the kernel cannot start one
  // (`ulimit -u`, many signals), it returns the request as cancelled although no caller cancelled
  // it. This thread then does the transfer.
  std::int64_t transfer_here(std::uint32_t index) const {
    const Piece& it = piece(index);
    return TransferThreads::transfer(
        {it.op->file->fd(), it.op->kind, it.data, it.offset, it.bytes, index});
  }

  bool results_held_back() const noexcept {
    constexpr unsigned kHeldBack = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;
    return (IO_URING_READ_ONCE(*ring_.sq.kflags) & kHeldBack) != 0;
  }

  // Of what was submitted the kernel has the first `result`.
  void taken(int result) {
    if (result > 0) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + result);
    }
  }

  // A filter that came after the engine: what the ring was not given is moved here, from now on.
  std::size_t transfer_refused() {
    const std::size_t count = refused_.size();
    for (const std::uint32_t index : refused_) {
      finish(index, transfer_here(index));
    }
    refused_.clear();
    return count;
  }

  // What io_uring_enter answered. False: nothing was done, and trying again later may help, or it
  // is refused for ever.
  bool can_go_on(int result) {
    switch (-result) {
      case EINTR:  // a signal came first; nothing is lost, and trying again at once is right
        return true;
      case EAGAIN:  // no memory for a request
      case EBUSY:   // results have overflown and must be read first
        return false;
      case EPERM:
      case EACCES:
      case ENOSYS:
        is_shut_ = true;
        refused_.insert(refused_.end(), waiting_.begin(), waiting_.end());
        waiting_.clear();
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
  std::vector<std::uint32_t> waiting_;  // pieces in the ring that the kernel has not taken yet
  bool is_shut_ = false;                // the kernel takes nothing any more: never submit again
  std::vector<std::uint32_t> refused_;  // pieces to be moved here
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
  if (ring.made) {
    ring.keep_from_children();
  }
  return error;
}

// 0 or an errno; EINVAL where the kernel lacks them: the ring is older (Linux 5.1) than these
// (5.6), and so is asking for them.
int require_read_and_write(Ring& ring) {
  constexpr unsigned kOps = IORING_OP_LAST;
  static_assert(sizeof(io_uring_probe) % sizeof(io_uring_probe_op) == 0);
  constexpr std::size_t kHeadOps = sizeof(io_uring_probe) / sizeof(io_uring_probe_op);
  std::array<io_uring_probe_op, kHeadOps + kOps> room{};
  auto* const probe = reinterpret_cast<io_uring_probe*>(room.data());
  if (const int result = ::io_uring_register_probe(&ring.raw, probe, kOps); result < 0) {
    return -result;
  }
  const bool has = ::io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                   ::io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  return has ? 0 : EINVAL;
}

// 0 or an errno: a filter may allow to make a ring and forbid to enter it.
int try_nothing(Ring& ring) {
  ::io_uring_prep_nop(::io_uring_get_sqe(&ring.raw));
  int result = 0;
  do {
    result = ::io_uring_submit_and_wait(&ring.raw, 1);
  } while (result == -EINTR);
  if (result < 0) {
    return -result;
  }
  io_uring_cqe* cqe = nullptr;
  do {
    result = ::io_uring_wait_cqe(&ring.raw, &cqe);
  } while (result == -EINTR);
  if (result < 0) {
    return -result;
  }
  ::io_uring_cqe_seen(&ring.raw, cqe);
  return 0;
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
  for (const auto require : {require_read_and_write, try_nothing}) {
    if (const int error = require(*ring); error != 0) {
      return explain_uring_refusal(error, read_io_uring_disabled());
    }
  }
  if (const int result = ::io_uring_register_eventfd(&ring->raw, (*event)->fd()); result < 0) {
    return system_error(-result, "cannot let io_uring signal results by an eventfd");
  }
  return std::unique_ptr<IoEngine>(
      std::make_unique<UringEngine>(options, std::move(*event), std::move(ring)));
}

}  // namespace penstock
