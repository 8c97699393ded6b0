"""Names of parameters are those of the model's files, whatever wraps it: rules and `penstock plan` have these."""

import pytest
from penstock.deepspeed import naming


@pytest.mark.parametrize(
    ("wrapped", "own"),
    [
        ("model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("base_model.model.model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("base_model.model.layers.0.q.base_layer.weight", "layers.0.q.weight"),
        ("base_model.model.layers.0.q.lora_A.default.weight", "layers.0.q.lora_A.default.weight"),
        ("base_model.encoder.weight", "base_model.encoder.weight"),  # a model's own module of that name
    ],
)
def test_without_what_peft_adds(wrapped, own):
    assert naming.own_name(wrapped) == own


def test_what_the_engine_partitions_has_its_name():
    torch = pytest.importorskip("torch")
    known = torch.nn.Linear(2, 2)
    naming.name_parameters(known)
    model = torch.nn.ModuleDict({"base_model": torch.nn.ModuleDict({"model": torch.nn.ModuleList([known])})})
    model["lora_A"] = torch.nn.Linear(2, 2)
    converted = []
    naming.named_conversion(lambda *arguments: converted.append(arguments[2]))(None, None, model, None)
    assert converted == [model]
    assert naming.full_name(known.weight) == "weight", "zero.Init has named it"
    assert naming.full_name(model["lora_A"].weight) == "lora_A.weight"
