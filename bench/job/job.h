#pragma once

#include <sched.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "alloc/bytes.h"
#include "io/engine_probe.h"
#include "swap/plan/integrity_level.h"

namespace penstock::bench {

/// What a job does: `raw` reads and writes one file a thread; `swap` fetches (and writes) the
/// tensors of an inventory in the order of a phase; `update` reads, steps and writes optimizer
/// states; `replay` runs a recorded trace again.
enum class Workload : std::uint8_t { kRaw, kSwap, kUpdate, kReplay };

/// The part of training whose order of use `workload=swap` follows; `update` is kStep.
enum class Phase : std::uint8_t { kForward, kTrain, kGenerate, kStep };

/// The program a job is compared with, in turns.
enum class Peer : std::uint8_t { kNone, kFio, kDeepSpeed };

/// fio's `rw=`, in order: read, write, rw.
struct Direction {
  bool reads = true;
  bool writes = false;

  bool operator==(const Direction&) const = default;
};

/// `compute=`: what passes between two tensors, a training step's own work.
struct Compute {
  enum class Per : std::uint8_t { kGigabyte, kTensor };  ///< 1e9 bytes
  std::uint64_t ns = 0;
  Per per = Per::kTensor;
  bool spins = true;  ///< false: sleeps

  bool operator==(const Compute&) const = default;
};

/// A drive by its numbers: `read=3.5g,write=3g,latency=80us`.
struct SimulatedDrive {
  std::uint64_t read_bytes_per_second = 0;
  std::uint64_t write_bytes_per_second = 0;
  std::uint64_t latency_ns = 0;
  /// `clock=real`: the same rates over the files of `directory`, by the machine's clock.
  bool real_time = false;

  bool operator==(const SimulatedDrive&) const = default;
};

/// One job. Optional where the default depends on the workload.
struct Job {
  std::string name;
  Workload workload = Workload::kRaw;
  /// The keys that the job was given, under their first names, as they were written.
  std::map<std::string, std::string> given;

  // Where.
  std::string directory;                 ///< empty: the working directory
  std::string filename;                  ///< empty: NAME.THREAD.0 in `directory`
  std::uint64_t size = 0;                ///< of the file or the inventory; 0: all that is there
  double size_percent = 0;               ///< instead of `size`: a share of what is there; 0: none
  std::optional<std::uint64_t> io_size;  ///< bytes to move; nothing: `size`
  bool unlink = false;

  // How.
  std::optional<EngineKind> engine;  ///< nothing: psync (raw), the plan's
  bool synchronous = false;          ///< `ioengine=psync`: one request at a time, on a thread
  std::optional<SimulatedDrive> simulated;
  std::optional<std::uint32_t> iodepth;
  std::optional<bool> direct;
  bool fixedbufs = false;
  std::optional<std::uint64_t> block_bytes;  ///< nothing: 4 KiB (raw), the plan's
  Direction direction;
  std::uint32_t rwmixread = 50;  ///< percent
  std::uint64_t rate = 0;        ///< bytes a second of each direction; 0: no limit
  std::uint32_t numjobs = 1;
  std::optional<cpu_set_t> cpus_allowed;
  bool verify = false;       ///< every byte of tensors that come back
  bool ends_synced = false;  ///< no key: the last sync counts as part of the run

  // How long.
  std::optional<std::uint64_t> runtime_ns;
  bool time_based = false;
  std::uint64_t ramp_time_ns = 0;
  std::uint32_t loops = 1;
  bool stonewall = false;  ///< begins when all jobs before it have ended
  bool group_reporting = false;

  // Swapping.
  std::string inventory;
  std::string config;  ///< a DeepSpeed JSON
  Phase phase = Phase::kForward;
  std::optional<Compute> compute;
  std::optional<std::uint64_t> max_pinned;
  std::optional<std::uint64_t> ram;
  std::optional<std::uint64_t> lookahead;  ///< bytes read ahead of their use at most
  std::optional<IntegrityLevel> integrity;
  std::string trace;  ///< of `replay`
  Peer peer = Peer::kNone;
  std::uint32_t pairs = 10;

  /// Of workload=raw: bytes of a request, and how many are under way at once. Without an engine it
  /// is psync, as fio's.
  std::uint64_t raw_block_bytes() const { return block_bytes.value_or(kBlockBytes); }
  bool is_psync() const { return synchronous || !engine; }
  std::uint32_t raw_depth() const { return is_psync() ? 1 : iodepth.value_or(1); }
};

}  // namespace penstock::bench
