#pragma once

#include <string>

#include "bindings/deepspeed/checkpoint_summary.h"
#include "bindings/deepspeed/checkpoint_verification.h"

namespace penstock::cli {

/// `penstock.inspect-checkpoint/1`.
std::string summary_json(const CheckpointSummary& summary);
/// What fits a screen first, then files, then tensors.
std::string summary_text(const CheckpointSummary& summary);

/// `penstock.verify-checkpoint/1`.
std::string verification_json(const CheckpointSummary& summary,
                              const CheckpointVerification& verification);
std::string verification_text(const CheckpointSummary& summary,
                              const CheckpointVerification& verification);

}  // namespace penstock::cli
