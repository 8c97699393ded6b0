#pragma once

#include <string>

namespace penstock {

/// The process's number among those of its run, as launchers say it in the environment: RANK,
/// OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID, LOCAL_RANK; the first that is a number, else "0".
std::string process_rank();

/// `path` with the rank for each `%r` and the process's number for each `%p`, so that processes do
/// not share a file.
std::string process_path(std::string path);

}  // namespace penstock
