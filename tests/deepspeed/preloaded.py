"""Imported once by the process that trials are forked from: what each of them would import, compile or ask again."""

import contextlib
import functools
import gc
import os

import cpuinfo

# DeepSpeed asks for each of its ops, by processes of its own; the answer takes a second and stays the same.
cpuinfo.get_cpu_info = functools.cache(cpuinfo.get_cpu_info)

import habits  # noqa: F401
import torch._dynamo  # noqa: F401
from deepspeed.ops.op_builder import CPUAdamBuilder

CPUAdamBuilder().load(verbose=False)
with contextlib.suppress(ImportError):  # what older versions do not have
    from deepspeed.ops.op_builder.cpu.comm import ShareMemCommBuilder
    from deepspeed.runtime.zero.muon import muon_optimizer  # noqa: F401

    if os.environ["DS_ACCELERATOR"] == "cpu":
        ShareMemCommBuilder().load(verbose=False)
gc.collect()
gc.freeze()  # the trials' own collections need not look at it
