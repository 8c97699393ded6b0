"""Layouts of narrow moments, sums of squares: a caller's mistakes are errors."""

from __future__ import annotations

import subprocess
import sys

import numpy
import penstock._core as core
import pytest
from penstock import ArgumentError

SEGMENTS = """
import numpy, penstock
from penstock._core import Adam, MomentLayout
first, = MomentLayout.cut("exp_avg", [(100, "8bit", 0), (200, "8bit", 0)], 1000)
second, = MomentLayout.cut("exp_avg_sq", [(200, "8bit", 0), (100, "8bit", 0)], 1000)
moments = [numpy.zeros(layout.nbytes, "uint8") for layout in (first, second)]
master, gradient = numpy.zeros(300, "float32"), numpy.zeros(300, "float32")
numbers = 1, 1e-3, 0.9, 0.999, 1e-8, 0.0, True, True
try:
    Adam().update(*numbers, master, *moments, gradient, "f32", 1.0, 1, first, second)
except penstock.ArgumentError:
    raise SystemExit(3)
"""


def test_two_moments_of_other_segments_are_refused() -> None:
    done = subprocess.run([sys.executable, "-c", SEGMENTS], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3, done.stderr


ENDLESS = """
import sys, penstock
from penstock._core import MomentLayout
try:
    MomentLayout.cut("exp_avg", eval(sys.argv[1]), int(sys.argv[2]))
except penstock.ArgumentError as error:
    assert "cannot be cut" in str(error), error
    raise SystemExit(3)
"""


@pytest.mark.parametrize(
    ("segments", "chunk_elements"),
    [
        ([(2**63, "8bit", 0)], 2**64 - 1),
        ([(2**64 - 1, "bf16", 0)] * 2, 4096),
        ([(2**40, "4bit", 0)], 0),
        ([(2**37, "8bit", 0)] * 3, 2**20),
    ],
)
def test_more_elements_than_can_be_cut_are_refused(segments: list[tuple[int, str, int]], chunk_elements: int) -> None:
    command = [sys.executable, "-c", ENDLESS, repr(segments), str(chunk_elements)]
    # Without the limit it takes all memory, too.
    limited = ["sh", "-c", 'ulimit -v 4000000; exec "$@"', "sh", *command]
    done = subprocess.run(limited, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 3, done.stderr


def test_as_many_elements_as_a_large_model_has_are_cut() -> None:
    (layout,) = core.MomentLayout.cut("exp_avg", [(2**32, "8bit", 0)], 2**33)
    assert layout is not None and layout.elements == 2**32 and layout.nbytes == 2**32 + 2**32 // 256 * 4
    assert len(core.MomentLayout.cut("exp_avg", [(2**38 - 4096, "fp32", 0)], 2**20)) == 2**18


def test_a_sum_of_squares_of_part_of_an_element():
    values = numpy.arange(8, dtype="float16")
    assert core.squared_sum(values, "f16", 4) == 140
    with pytest.raises(ArgumentError, match="within one of f32"):
        core.squared_sum(values[:3], "f32", 4)
