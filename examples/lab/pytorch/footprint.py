"""Writes what autograd saves under autocast, and the error of its gradients against F64.

    python footprint.py --out DIR
    cargo run --release -p lab --bin footprint -- --pytorch DIR

The subjects are the zoo at its tiny size with eight times its batch, and the blocks of `blocks.py`.
`DIR/footprint.json` holds the numbers; `DIR/DRAW/NAME-tiny.weights.safetensors`, `….example.safetensors`
and `….gradients.safetensors` hold the weights, the batch, and the gradients in F64 (stored in F32), so
that the same is measured elsewhere from the same weights. `cuda_rules.py` says which autocast is measured.
"""

import argparse
import functools
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from blocks import BLOCKS
from cuda_rules import CudaRules
from gradients import Gradients, Relative, gradients, in_f64, over_draws, relative
from models.spec import Batch, Objective, Spec
from models.zoo import ZOO
from precision import INITIAL_SCALE
from saved import Saved, saved_bytes
from training import make_batch
from weights import write

BATCHES = 8
"""How many times the zoo's own batch is measured, so that activations outweigh parameters."""

PRECISIONS = {"f32": None, "bf16": torch.bfloat16, "f16": torch.float16}


class Subject(NamedTuple):
    """A net with one of its losses."""

    spec: Spec
    objective: Objective
    batch_size: int
    forward: Callable[[nn.Module, Batch], Tensor]
    """Computes what a net that holds this one would go on with: the loss, or a block's output."""

    def model(self, draw: int) -> nn.Module:
        torch.manual_seed(draw)
        return self.spec.build(self.spec.tiny()).train()

    def batch(self, draw: int, times: int = 1) -> Batch:
        """The batch that `weights.write` saves, or one of `times` as many items."""
        items = times * self.batch_size
        return make_batch(self.spec, self.spec.tiny(), items, torch.device("cpu"), draw)


def subjects() -> dict[str, Subject]:
    """The models of the zoo, a GAN's two losses apart, and the blocks."""
    found = {}
    for name, spec in ZOO.items():
        size = spec.batch_size_tiny * BATCHES
        first, *others = spec.objectives
        found[name] = Subject(spec, first, size, first.loss)
        found |= {f"{name}-{goal.name}": Subject(spec, goal, size, goal.loss) for goal in others}
    for name, spec in BLOCKS.items():
        found[name] = Subject(spec, spec.objectives[0], 1, spec.output)
    return found


def context(dtype: torch.dtype | None) -> AbstractContextManager:
    """CUDA's rules, and autocast unless the dtype is None."""
    stack = ExitStack()
    if dtype is not None:
        stack.enter_context(torch.autocast("cpu", dtype=dtype))
    stack.enter_context(CudaRules())
    return stack


def saved(subject: Subject, precision: str, times: int) -> Saved:
    """The bytes that the forward pass of `times` as many items saves."""
    model, batch = subject.model(0), subject.batch(0, times)
    others = [*model.buffers(), *batch.values()]
    forward = functools.partial(subject.forward, model, batch)
    return saved_bytes(forward, model.parameters(), others, context(PRECISIONS[precision]))


def low_gradients(subject: Subject, draw: int, precision: str) -> Gradients:
    """The gradients under autocast, or in F32."""

    def loss(model: nn.Module, batch: Batch) -> Tensor:
        with context(PRECISIONS[precision]):
            return subject.objective.loss(model, batch)

    scale = INITIAL_SCALE if precision == "f16" else 1.0
    return gradients(subject.model(draw), subject.batch(draw), loss, scale)


def exact_gradients(subject: Subject, draw: int) -> Gradients:
    """The gradients in F64."""
    model = subject.model(draw)
    batch = in_f64(model, subject.batch(draw))
    return gradients(model, batch, subject.objective.loss)


def write_gradients(model: nn.Module, exact: Gradients, path: Path) -> None:
    """Saves gradients under the names of the state dict; what has none is zero, buffers keep their values."""
    parameters = {name for name, _ in model.named_parameters()}
    state = {
        name: torch.zeros_like(tensor) if name in parameters else tensor
        for name, tensor in model.state_dict().items()
    }
    state |= {name: gradient.float().contiguous() for name, gradient in exact.items()}
    save_file(state, path)


def rows(name: str, subject: Subject, draws: int, folder: Path) -> list[dict]:
    """Writes the files of a subject and returns its rows, one per precision."""
    errors: dict[str, list[Relative]] = {precision: [] for precision in PRECISIONS}
    for draw in range(draws):
        files = folder / str(draw)
        write(name, "tiny", subject.batch_size, files, subject.spec, draw)
        exact = exact_gradients(subject, draw)
        write_gradients(subject.model(draw), exact, files / f"{name}-tiny.gradients.safetensors")
        for precision, found in errors.items():
            found.append(relative(low_gradients(subject, draw, precision), exact))
    found = []
    for precision in PRECISIONS:
        once, twice = (saved(subject, precision, times) for times in (1, 2))
        found.append({
            "subject": name,
            "precision": precision,
            "kept_bytes": once.kept,
            "tensor_bytes": twice.kept - once.kept,
            "weight_cast_bytes": once.weight_casts,
            "gradient_error": over_draws(errors[precision]),
        })
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = subjects()
    parser.add_argument("--subject", nargs="+", choices=every, default=list(every), metavar="NAME")
    parser.add_argument("--draws", type=int, default=4, help="of weights and batch; default: %(default)s")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    found = []
    for name in args.subject:
        found += rows(name, every[name], args.draws, args.out)
        for row in found[-len(PRECISIONS):]:
            errors = row["gradient_error"]
            print(
                f"{name:<15} {row['precision']:<4} {row['kept_bytes']:>9} bytes kept, "
                f"gradient error {errors['overall']:.1e}, of {errors['parameter']} {errors['largest']:.1e}"
            )
    result = {"version": torch.__version__, "draws": args.draws, "rows": found}
    (args.out / "footprint.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
