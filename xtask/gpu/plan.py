"""The table of all steps, the most valuable first."""

import json
from itertools import chain

from framework import Framework, Ours, PyTorch
from measurement import Measure, Work
from once import Once
from step import Context, Step
from suite import Suite
from watch import Ended, watch

# The batch sizes are said here, so that both frameworks and a run that was ended agree on them.
MAIN_WORKS = [
    Work("gpt", "gpt:batch_size=8", tiny="gpt:batch_size=4"),  # sequences of 1024
    Work("bert-128", "bert:batch_size=64", tiny="bert:batch_size=4"),
    Work("bert-512", "bert:batch_size=16,seq_len=512", tiny="bert:batch_size=2,seq_len=32"),
    Work("resnet50", "resnet50:batch_size=128", tiny="resnet50:batch_size=4"),  # 224 x 224
    Work("mlp-large", "mlp-large:batch_size=4096", tiny="mlp-large:batch_size=8"),  # 160 M parameters
    Work("unet", "unet:batch_size=32", tiny="unet:batch_size=2"),
]
MORE_WORKS = [
    Work("resnet18", "resnet18:batch_size=128", tiny="resnet18:batch_size=4"),
    Work("lstm", "lstm:batch_size=256", tiny="lstm:batch_size=8"),
    Work("wgan", "wgan:batch_size=128", tiny="wgan:batch_size=4"),
    Work("tabular", "tabular:batch_size=4096", tiny="tabular:batch_size=8"),
    Work("mlp-medium", "mlp-medium:batch_size=1024", tiny="mlp-medium:batch_size=8"),
    Work("mlp", "mlp:batch_size=256", tiny="mlp:batch_size=8"),
]
TRANSFORMERS = MAIN_WORKS[:3]

OURS = Ours("burn-amp", "bench")
FUSION = Ours("burn-amp-fusion", "bench-fusion")
THEIRS = PyTorch("pytorch")
SDPA = PyTorch("pytorch-sdpa", ("--sdpa",))

MAIN = ["f32", "amp-bf16", "amp-f16"]
SCALERS = ["amp-f16-static-128", "amp-f16-unscaled"]


def steps(context: Context) -> list[Step]:
    """Returns the steps whose program is in the bundle."""
    every = chain(
        [Suite("suite", "suite")],
        pairs(MAIN_WORKS),
        each(MAIN_WORKS, FUSION, MAIN),
        each(TRANSFORMERS, SDPA, MAIN),
        # A program of another kind is a row like this one; `xtask/src/gpu.rs` packs it.
        [Once("kernels", "bench", ("kernels", "--backend", context.place.about["backend"], "--shapes", *shapes(context)))],
        each(TRANSFORMERS, OURS, ["amp-decomposed"]),
        each(MAIN_WORKS, OURS, ["o2"]),
        pairs(MORE_WORKS),
        each(MAIN_WORKS, OURS, SCALERS),
        each(MAIN_WORKS, THEIRS, SCALERS[:1]),
        [Suite("suite-fusion", "suite-fusion")],
        each(MORE_WORKS, FUSION, MAIN),
    )
    return [step for step in every if step.is_there(context)]


def shapes(context: Context) -> tuple[str, ...]:
    """Returns the shapes that the kernels compute on: on a GPU some hundred MiB, more than its caches hold."""
    return ("64x64",) if context.size == "tiny" else ("131072x768", "8192x50257", "98304x512")


def pairs(works: list[Work]) -> list[Step]:
    """Ours and PyTorch's next to each other; which goes first alternates, in case the device's clocks move."""
    found: list[Step] = []
    for index, work in enumerate(works):
        pair = [Measure(work, OURS, MAIN), Measure(work, THEIRS, ["f32", "tf32", *MAIN[1:]])]
        found += pair if index % 2 == 0 else reversed(pair)
    return found


def each(works: list[Work], framework: Framework, precisions: list[str]) -> list[Step]:
    return [Measure(work, framework, precisions) for work in works]


def smoke_test(context: Context) -> str | None:
    """Trains the smallest model for three steps; returns what is wrong."""
    place, clock = context.place, context.clock
    out, log = place.work / "smoke.jsonl", place.results / "smoke.log"
    out.unlink(missing_ok=True)
    command = [
        *OURS.command(context), "--models", "mlp", "--size", "tiny", "--precision", "f32",
        "--steps", "3", "--warmup", "1", "--out", out,
    ]
    clock.say("smoke test")
    why, status = watch(
        command, log, place.environment(), place.work, clock.left, context.quiet_seconds, place.cache
    )
    if why is not Ended.BY_ITSELF:
        return f"the program was ended, {why.value}; see {log}"
    if status != 0 or not out.exists():
        lines = log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if line.startswith("Error: ")]
        return errors[-1].removeprefix("Error: ") if errors else f"exit status {status}, see {log}"
    return json.loads(out.read_text())["error"]
