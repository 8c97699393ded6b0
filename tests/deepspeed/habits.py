"""All habits, in the order of the table."""

# ruff: noqa: F401
import habits_dropping
import habits_experts
import habits_failures
import habits_forwards
import habits_freezing
import habits_gradients
import habits_hooks
import habits_lifetimes
import habits_optimizers
import habits_passes
import habits_placement
import habits_resuming
import habits_saving
import habits_sequences
import habits_states
import habits_trainer
import habits_transformers
