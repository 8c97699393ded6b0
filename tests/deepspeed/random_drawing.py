"""What a seed draws: plain values, so that a training can be written down, changed and run again."""

from __future__ import annotations

import random
from typing import Any

Drawn = dict[str, Any]
ZERO = "zero_optimization__"

# Seeds below this one draw what they drew when penstock failed with some of them.
FIRST_WIDE = 1000
FIRST_WIDER = 5000
FIRST_USED = 9000
KINDS = [
    "dense",
    "vector",
    "table",
    "norm",
    "shared",
    "twice",
    "attention",
    "encoder",
    "outside",
    "several",
    "normalized",
    "experts",
    "mapping",
    "hooked",
    "convolution",
]

USED_KINDS = ["adapted", "recurrent", "routed", "nested"]
USES: list[list[Any]] = [
    ["average", 0],
    ["average", 1],
    ["inference"],
    ["train_in_eval"],
    ["thread"],
    ["save", 0],
    ["save", 1],
    ["to_fp32"],
    ["schedule"],
]
SIZES = [[1], [7], [3, 5, 11], [4095], [4096], [4097], [1, 1], [2, 1, 1], [100003]]

# Settings of DeepSpeed's and penstock's, each of which is drawn for about every seventh training.
SETTINGS: dict[str, list[Any]] = {
    "gradient_clipping": [0.01, 0.5, 1000.0],
    "gradient_accumulation_steps": [2, 3],
    f"{ZERO}sub_group_size": [1, 100, 5_000, 1_000_000_000],
    f"{ZERO}stage3_param_persistence_threshold": [0, 100, 10_000_000],
    f"{ZERO}stage3_model_persistence_threshold": [0, 1_000],
    f"{ZERO}stage3_max_live_parameters": [0, 1_000],
    f"{ZERO}stage3_max_reuse_distance": [1_000, 1_000_000_000],
    f"{ZERO}stage3_prefetch_bucket_size": [0, 1_000, 10_000_000],
    f"{ZERO}stage3_use_all_reduce_for_fetch_params": [True],
    f"{ZERO}stage3_allgather_sequential": [True],
    f"{ZERO}stage3_gather_16bit_weights_on_model_save": [True],
    f"{ZERO}reduce_bucket_size": [1, 1_000],
    f"{ZERO}overlap_comm": [True, False],
    f"{ZERO}contiguous_gradients": [False],
    f"{ZERO}reduce_scatter": [False],
    f"{ZERO}round_robin_gradients": [True],
    f"{ZERO}memory_efficient_linear": [False],
    f"{ZERO}enable_sanity_checks": [True],
    f"{ZERO}override_module_apply": [False],
    "managed_gradient_accumulation": [False],
    "prescale_gradients": [True],
    "gradient_predivide_factor": [2.0],
    "torch_autocast": [{"enabled": True, "dtype": "bfloat16"}],
    f"{ZERO}offload_optimizer__pipeline_read": [True],
    f"{ZERO}offload_optimizer__pipeline_write": [True],
    f"{ZERO}offload_optimizer__fast_init": [True],
    f"{ZERO}offload_optimizer__pin_memory": [True],
    f"{ZERO}offload_optimizer__buffer_count": [1],
    f"{ZERO}offload_param__buffer_count": [1],
    f"{ZERO}offload_param__buffer_size": [1_000],
    f"{ZERO}offload_param__max_in_cpu": [5_000, 1_000_000_000],
    f"{ZERO}offload_param__pin_memory": [True],
    "communication_data_type": ["fp32", "bf16", "fp16"],
    "data_types": [{"grad_accum_dtype": "fp32"}, {"grad_accum_dtype": "bf16"}, {"grad_accum_dtype": "fp16"}],
    "scheduler": [{"type": "WarmupLR", "params": {"warmup_num_steps": 5, "warmup_max_lr": 0.01}}],
    "penstock__ram_bytes": ["100KiB", "1GiB"],
    "penstock__max_pinned_bytes": ["8MiB", "4MiB", "5MiB"],
    "penstock__integrity": ["off", "full", "sampled"],
    "penstock__engine": ["threads", "uring", "aio"],
    "penstock": [None],
}
PLACES = [
    {},
    {},
    {},
    {f"{ZERO}offload_param": None},
    {f"{ZERO}offload_param": {"device": "cpu"}},
    {f"{ZERO}offload_optimizer": None},
    {f"{ZERO}offload_param": None, f"{ZERO}offload_optimizer__ratio": 0.5},
]
PRECISIONS: list[dict[str, Any]] = [
    {"bf16": {"enabled": True}},
    {"bf16": {"enabled": True}},
    {"bf16": None},
    {"bf16": None, "fp16": {"enabled": True, "initial_scale_power": 6, "loss_scale_window": 3, "hysteresis": 1}},
    {"bf16": None, "fp16": {"enabled": True, "loss_scale": 64.0}},
    {"bf16": {"enabled": True, "check_grad_overflow": False}},
    {"bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}},
]
CPU_ADAM: list[dict[str, Any]] = [
    {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.1}},
    {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.0, "betas": [0.5, 0.6], "eps": 1e-3}},
    {"type": "Adam", "params": {"lr": 1e-2, "weight_decay": 0.1, "adam_w_mode": False}},
    {"type": "Adam", "params": {"lr": 1e-2, "bias_correction": False}},
]
NAMED: list[dict[str, Any]] = [
    {"type": "Lion", "params": {"lr": 1e-3, "weight_decay": 0.1}},
    {"type": "Adagrad", "params": {"lr": 1e-2, "weight_decay": 0.1}},
    {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.1, "torch_adam": True}},
    {"type": "Adam", "params": {"lr": 1e-2, "amsgrad": True, "torch_adam": True, "adam_w_mode": False}},
    {"type": "NAdam", "params": {"lr": 1e-2, "weight_decay": 0.1}},
    {"type": "RAdam", "params": {"lr": 1e-2, "weight_decay": 0.1}},
    {"type": "Adamax", "params": {"lr": 1e-2}},
    {"type": "Adadelta", "params": {"lr": 1.0}},
    {"type": "RMSprop", "params": {"lr": 1e-3, "centered": True, "momentum": 0.9}},
    {"type": "SGD", "params": {"lr": 1e-2, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}},
    {"type": "SGD", "params": {"lr": 1e-2, "momentum": 0.9, "dampening": 0.5}},
    {"type": "SGD", "params": {"lr": 1e-2}},
    {"type": "Muon", "params": {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.1}},
]
TORCH: list[tuple[str, dict[str, Any]]] = [
    ("Adagrad", {"lr": 1e-2, "initial_accumulator_value": 0.1}),
    ("AdamW", {"lr": 1e-2, "foreach": True}),
    ("AdamW", {"lr": 1e-2, "fused": True}),
    ("Adam", {"lr": 1e-2, "maximize": True, "weight_decay": 0.1}),
    ("Adamax", {"lr": 1e-2, "foreach": True}),
    ("SGD", {"lr": 1e-2, "momentum": 0.9, "fused": True}),
    ("ASGD", {"lr": 1e-2}),
    ("Rprop", {"lr": 1e-3}),
]
WIDER_PRECISIONS: list[dict[str, Any]] = [
    {
        "bf16": None,
        "fp16": {
            "enabled": True,
            "initial_scale_power": power,
            "loss_scale_window": 2,
            "hysteresis": 2,
            "consecutive_hysteresis": is_renewed,
            "min_loss_scale": 8,
        },
    }
    for power in (4, 16)
    for is_renewed in (True, False)
]
WIDER_SETTINGS: dict[str, list[Any]] = {
    "scheduler": [
        {"type": "WarmupDecayLR", "params": {"total_num_steps": 9, "warmup_num_steps": 4, "warmup_max_lr": 0.01}},
        {"type": "WarmupCosineLR", "params": {"total_num_steps": 9, "warmup_num_steps": 3}},
        {"type": "LRRangeTest", "params": {"lr_range_test_step_size": 2, "lr_range_test_step_rate": 3.0}},
        {"type": "OneCycle", "params": {"cycle_min_lr": 1e-3, "cycle_max_lr": 1e-2, "cycle_first_step_size": 3}},
    ],
    "penstock__tensors": [
        [{"match": "*", "place": "ram"}],
        [{"min_bytes": "1KiB", "place": "stream"}],
        [{"match": "*master*", "place": "ram"}, {"match": "*embedding*", "place": "dedicated"}],
    ],
    "penstock__size_classes": [["4KiB", "1MiB"]],
    "train_micro_batch_size_per_gpu": [3],
    f"{ZERO}ignore_unused_parameters": [True],
    f"{ZERO}offload_optimizer": [{"device": "cpu"}],
}
PARTS = [{"load_module_only": True}, {"load_optimizer_states": False}]


def drawn(seed: int) -> Drawn:
    rng = random.Random(seed)
    width = rng.choice([4, 8, 24, 33])
    wide = seed >= FIRST_WIDE
    made: Drawn = {
        "seed": seed,
        "ranks": rng.choice([1, 1, 2]),
        "width": width,
        "blocks": _blocks(rng, width, seed),
        "zero_init": rng.random() < 0.4,
        "groups": [_group(rng) for _ in range(rng.choice([1, 1, 2, 3]))],
        "torch_optimizer": None,
        "torch_arguments": {},
        "minimum_bytes": rng.choice([1, 1, 64, 5_000]),
        "chunk_elements": rng.choice([128, 1_280, 6_400, 1 << 20]),
        "config": {},
    }
    config = made["config"]
    config.update(rng.choice(PRECISIONS))
    config.update({"aio": {"block_size": made["minimum_bytes"]}, "zero_allow_untested_optimizer": True})
    _draw_optimizer(rng, made)
    for name, values in SETTINGS.items():
        if rng.random() < 0.15:
            config[name] = rng.choice(values)
    config.update(rng.choice(PLACES))
    if seed >= FIRST_WIDER:
        _widen(rng, config)
    _tidy(config)
    _make_possible(config)
    if made["zero_init"]:  # which empties the two parameters while torch computes with them
        made["blocks"] = [block for block in made["blocks"] if block[0] != "normalized"]
    if "torch_autocast" in config:  # which parts that are multiplied by 0 change
        _use_branches(made)
        # DeepSpeed gathers another module's weight in fp32 in the first forward of an engine, in 16 bits from then on.
        made["blocks"] = [block for block in made["blocks"] if block[0] not in ("outside", "attention", "encoder")]
    made["actions"] = [["train", 2, 1.0], *(_action(rng, wide) for _ in range(rng.randint(3, 9)))]
    if rng.random() < 0.3:
        made["actions"].insert(rng.randint(1, len(made["actions"])), ["second_engine", 2])
    if seed >= FIRST_WIDER:
        for _ in range(rng.randint(0, 3)):
            made["actions"].insert(rng.randint(1, len(made["actions"])), _wider_action(rng))
        in_ram = (config.get(f"{ZERO}offload_optimizer") or {}).get("device") == "cpu"
        if in_ram or any(verb == "merged" for verb, *_ in made["actions"]):
            # DeepSpeed keeps an old gradient of what is left out, and releases small weights when the order changes.
            _use_branches(made, "no_grad" if seed >= FIRST_USED else "branch")
    if seed >= FIRST_USED:
        for _ in range(rng.randint(2, 7)):
            made["actions"].insert(rng.randint(1, len(made["actions"])), rng.choice(_uses(made)))
    return made


def _uses(made: Drawn) -> list[list[Any]]:
    """DeepSpeed fails with a block that a step leaves out and whose first forward was in torch.inference_mode()."""
    leaves_out = any("branch" in use for *_, use in made["blocks"])
    return [use for use in USES if not (leaves_out and use == ["inference"])]


def _use_branches(made: Drawn, other: str = "branch") -> None:
    """In each micro-step, as other blocks; also what has the use `other`."""
    made["blocks"] = [
        [kind, argument, "" if "branch" in use or use == other else use] for kind, argument, use in made["blocks"]
    ]


def _blocks(rng: random.Random, width: int, seed: int) -> list[list[Any]]:
    blocks = [["dense", width, ""], *(_block(rng, width, seed >= FIRST_WIDE) for _ in range(rng.randint(1, 5)))]
    if seed >= FIRST_USED:
        for _ in range(rng.randint(1, 3)):
            blocks.insert(rng.randint(1, len(blocks)), [rng.choice(USED_KINDS), None, _use(rng)])
    return blocks


def _block(rng: random.Random, width: int, wide: bool) -> list[Any]:
    kind = rng.choice(KINDS if wide else ["dense", "dense", "vector", "vector", "table", "norm", "shared", "twice"])
    arguments = {
        "dense": rng.choice([1, 3, width, 129]),
        "encoder": 2 * width,
        "vector": rng.choice(SIZES),
        "table": [rng.choice([5, 1000, 5003]), rng.random() < 0.5],
    }
    return [kind, arguments.get(kind), _use(rng)]


def _use(rng: random.Random) -> str:
    return rng.choice(["", "", "", "frozen", "no_grad", "checkpointed", "reentrant", "branch:2:0", "branch:3:1"])


def _group(rng: random.Random) -> dict[str, Any]:
    group: dict[str, Any] = {}
    if rng.random() < 0.4:
        group["lr"] = rng.choice([0.0, 1e-3, 5e-2])
    if rng.random() < 0.4:
        group["weight_decay"] = rng.choice([0.0, 0.01, 0.5])
    return group


def _widen(rng: random.Random, config: dict[str, Any]) -> None:
    if rng.random() < 0.2:
        config.update(rng.choice(WIDER_PRECISIONS))
    for name, values in WIDER_SETTINGS.items():
        if rng.random() < 0.15:
            config[name] = rng.choice(values)
    if config.get(f"{ZERO}offload_optimizer"):  # parameters are on NVMe, or penstock has nothing to do
        config.pop(f"{ZERO}offload_param", None)
    if "penstock__tensors" in config:  # what rules keep in RAM has to fit
        config["penstock__ram_bytes"] = "1GiB"


def _wider_action(rng: random.Random) -> list[Any]:
    choices: list[list[Any]] = [
        ["merged", rng.randrange(3)],
        ["hooked", rng.choice([0.5, 3.0])],
        ["boundary", rng.randint(1, 3)],
        ["states"],
    ]
    return rng.choice(choices)


def _draw_optimizer(rng: random.Random, made: Drawn) -> None:
    kind = rng.random()
    if kind < 0.45:
        made["config"]["optimizer"] = rng.choice(CPU_ADAM)
    elif kind < 0.85:
        made["config"]["optimizer"] = rng.choice(NAMED)
    else:
        made["torch_optimizer"], made["torch_arguments"] = rng.choice(TORCH)
        made["config"].update({"optimizer": None, "zero_force_ds_cpu_optimizer": False})
    if kind < 0.45 and rng.random() < 0.3:
        for group in made["groups"]:
            group.update(rng.choice([{}, {"betas": [0.8, 0.9]}, {"eps": 1e-2}]))


def _tidy(config: dict[str, Any]) -> None:
    """Settings below a section that is not there would make it."""
    for key in list(config):
        for parent in (f"{ZERO}offload_param", f"{ZERO}offload_optimizer", "penstock"):
            if key.startswith(f"{parent}__") and parent in config:
                del config[key]


def _make_possible(config: dict[str, Any]) -> None:
    """What DeepSpeed insists on."""
    if "managed_gradient_accumulation" in config:
        config[f"{ZERO}overlap_comm"] = False
        config.pop("gradient_accumulation_steps", None)
    if "prescale_gradients" in config or "gradient_predivide_factor" in config:
        config[f"{ZERO}reduce_scatter"] = False
    if "torch_autocast" in config:
        config.update({"bf16": None, "fp16": None})
        config.pop(f"{ZERO}stage3_use_all_reduce_for_fetch_params", None)
    if (config.get("bf16") or {}).get("bf16_master_weights_and_grads") and config.get("optimizer") not in CPU_ADAM:
        config["bf16"] = {"enabled": True}
    if (config.get("optimizer") or {}).get("type") == "Muon":
        config[f"{ZERO}reduce_scatter"] = False
    if config.get("optimizer") not in CPU_ADAM:
        config.pop(f"{ZERO}offload_optimizer__ratio", None)


def _action(rng: random.Random, wide: bool) -> list[Any]:
    which = rng.randrange(100)
    actions: list[tuple[int, list[Any]]] = [
        (6, ["train", rng.randint(1, 4), 1.0]),
        (2, ["train", 1, rng.choice([float("inf"), 1e4, 0.0, -1.0])]),
        (1, ["step_alone"]),
        (1, ["evaluate"]),
        (1, ["forward_alone"]),
        (1, ["forward_fails", which]),
        (1, ["zero_grad"]),
        (2, ["hyperparameter", which, *rng.choice([("lr", 0.0), ("lr", 0.02), ("weight_decay", 0.3)])]),
        (1, ["hyperparameter", which, "betas", [0.7, 0.95]]),
        (1, ["gathered", which % 3, 0.5]),
        (1, ["set_full", which % 3]),
        (1, ["set_local", which % 3]),
        (1, ["coalesced", rng.randint(1, 3)]),
        (2, ["set_gradient", which % 3, rng.random() < 0.5]),
        (1, ["freeze", which]),
        (1, ["see"]),
        (1, ["save_weights"]),
        (3, ["resume", rng.choice(["here", "new", "foreign"]), rng.randint(0, 2)]),
        (1, ["restart"]),
    ]
    if wide:
        actions += [
            (1, ["accumulate", rng.randint(1, 3)]),
            (1, ["load_part", rng.choice(PARTS)]),
        ]
    weights, choices = zip(*actions, strict=True)
    chosen: list[Any] = rng.choices(choices, weights)[0]
    return chosen
