"""What a training run is doing: a line a step; on a terminal a line a second between them, written over."""

from __future__ import annotations

import sys
import time

from training_run import Sample, Step

SILENCE_SECONDS = 15  # at most, where the output is no terminal


class Progress:
    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._done = 0
        self._terminal = sys.stdout.isatty()
        self._begin = time.monotonic()
        self._said = 0.0

    def __call__(self, step: Step | None, sample: Sample) -> None:
        elapsed = time.monotonic() - self._begin
        state = f"{elapsed:5.0f} s   memory {sample.rss / 1e9:5.2f} GB   read {sample.read / 1e9:6.2f} GB"
        if step:
            self._done += 1
            done = f"step {self._done}/{self._steps}: {step.seconds:.1f} s, {step.described()}"
            print(("\r\033[K" if self._terminal else "") + f"  {state}   {done}", flush=True)
        elif self._terminal:
            what = "loading" if self._done == 0 else "training"
            print(f"\r\033[K  {state}   {what}", end="", flush=True)
        elif elapsed - self._said > SILENCE_SECONDS:
            self._said = elapsed
            print(f"  {state}", flush=True)
