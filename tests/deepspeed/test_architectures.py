"""Architectures of transformers train, evaluate and generate through penstock what they do with `device: cpu`, to the
last digit. Left out are some that end in an error with both, that are large at these sizes, or whose random layers
differ between ranks.
"""

from __future__ import annotations

import functools
from pathlib import Path

import architectures
import pytest
from habit_process import equals_reference

DENSE = (
    "apertus arcee biogpt bitnet bloom codegen cohere cohere2 diffllama ernie4_5 exaone4 falcon gemma gemma2 "
    "gemma3_text gemma3n_text gemma4_text glm glm4 gpt2 gpt_bigcode gpt_neox gptj granite helium llama mistral mpt "
    "nemotron olmo2 opt persimmon phi phi3 qwen2 qwen3 smollm3 stablelm starcoder2 xglm"
).split()
EXPERTS = (
    "afmoe cohere2_moe deepseek_v2 deepseek_v3 dots1 ernie4_5_moe flex_olmo glm4_moe gpt_oss granitemoe "
    "hunyuan_v1_moe llama4_text minimax_m2 mixtral olmoe phimoe qwen2_moe qwen3_moe"
).split()
RECURRENT = "falcon_mamba mamba olmo_hybrid rwkv xlstm".split()
TRANSLATING = "bart blenderbot led mbart mt5 mvp pegasus plbart umt5".split()
FILLING = (
    "albert bert camembert convbert deberta deberta-v2 distilbert electra esm modernbert mpnet roberta xlm"
).split()
CAUSAL = [*DENSE, *EXPERTS, *RECURRENT]
GROUPS = [
    *((tuple(CAUSAL[first::6]), "CausalLM") for first in range(6)),
    (tuple(TRANSLATING), "Seq2SeqLM"),
    (tuple(FILLING), "MaskedLM"),
]


@pytest.mark.deep
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("group", "kind"), GROUPS)
def test_architectures(group: tuple[str, ...], kind: str, ranks: int, tmp_path: Path) -> None:
    equals_reference(functools.partial(architectures.train, group, kind), tmp_path / "trained", ranks)
