#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/job/simulated_drive.h"
#include "io/engine_probe.h"
#include "swap/plan/integrity_level.h"

namespace penstock::bench {

/// What a job does: `raw` what fio does; `swap` fetches (and writes) the tensors of an inventory in
/// the order of a phase; `update` reads, steps and writes optimizer states; `replay` a recorded
/// trace.
enum class Workload : std::uint8_t { kRaw, kSwap, kUpdate, kReplay };

/// The part of training whose order of use `workload=swap` follows.
enum class Phase : std::uint8_t { kForward, kBackward, kStep, kTrain, kGenerate };

/// Against whom a job is measured, in turns.
enum class Peer : std::uint8_t { kNone, kFio, kDeepSpeed };

/// fio's `rw=`.
struct Direction {
  bool reads = true;
  bool writes = false;
  bool random = false;

  bool operator==(const Direction&) const = default;
};

/// One entry of fio's `bssplit=`: of all requests, `percent` have `bytes`.
struct BlockShare {
  std::uint64_t bytes = 0;
  std::uint32_t percent = 100;

  bool operator==(const BlockShare&) const = default;
};

/// What passes between two tensors, `compute=`: a training step's own work.
struct Compute {
  enum class Per : std::uint8_t { kGigabyte, kTensor };  ///< 1e9 bytes
  std::uint64_t ns = 0;
  Per per = Per::kTensor;
  bool spins = true;  ///< false: sleeps

  bool operator==(const Compute&) const = default;
};

/// One job: fio's keys with fio's meaning and defaults, and ours. Optional where the default
/// depends on the workload: fio's for `raw`, what plan and probe say for the others.
struct Job {
  std::string name;
  Workload workload = Workload::kRaw;

  // Where.
  std::string directory;               ///< empty: the working directory
  std::vector<std::string> filenames;  ///< empty: NAME.THREAD.FILE in `directory`
  std::uint32_t nrfiles = 1;
  std::uint64_t size = 0;                ///< of all files of one thread together; 0: what is there
  std::optional<std::uint64_t> io_size;  ///< bytes to move; nothing: `size`
  std::uint64_t offset = 0;
  std::optional<bool> fallocate;  ///< nothing: where the file system can
  bool unlink = false;
  bool invalidate = true;

  // How.
  std::optional<EngineKind> engine;  ///< nothing: psync (raw), the plan's
  bool synchronous = false;  ///< `ioengine=psync|pvsync`: one request at a time, whatever iodepth
  std::optional<SimulatedDrive> simulated;
  std::optional<std::uint32_t> iodepth;
  std::optional<bool> direct;
  bool fixedbufs = false;
  std::vector<BlockShare> read_blocks;  ///< empty: 4 KiB (raw), the plan's
  std::vector<BlockShare> write_blocks;
  Direction direction;
  std::uint32_t rwmixread = 50;  ///< percent
  std::uint32_t numjobs = 1;
  bool thread = false;      ///< taken for fio's sake: jobs are threads here
  std::uint32_t fsync = 0;  ///< after so many writes; 0: never
  bool end_fsync = false;
  std::uint64_t thinktime_us = 0;
  std::uint64_t randseed = 0;
  bool verify = false;        ///< every byte that was written
  std::string verify_method;  ///< as written; what is compared is the whole block

  // How long.
  std::optional<std::uint64_t> runtime_ns;
  bool time_based = false;
  std::uint64_t ramp_time_ns = 0;
  std::uint32_t loops = 1;
  bool stonewall = false;  ///< begins when all jobs before it have ended

  // What is told.
  bool group_reporting = false;
  std::vector<double> percentiles;  ///< empty: fio's
  std::string write_bw_log;         ///< a prefix; empty: none

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

  bool operator==(const Job&) const = default;
};

}  // namespace penstock::bench
