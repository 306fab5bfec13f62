"""Writes a seeded model's weights, a batch, its output and its F32 loss, to check a twin against.

    python weights.py --model mlp --size tiny --out DIR

`DIR/mlp-tiny.weights.safetensors` holds the state dict before any step, and
`DIR/mlp-tiny.example.safetensors` holds `batch.NAME`, `output`, and `loss` (of shape [1]; one
`loss.NAME` for each where there are several). All in F32 and training mode: batch norm takes the
statistics of the batch.
"""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file

from models.spec import Spec
from models.zoo import ZOO
from training import SEED, make_batch


def write(
    model_name: str, size: str, batch_size: int | None, folder: Path,
    spec: Spec | None = None, seed: int = SEED,
) -> tuple[Path, Path]:
    """Returns the paths of the weights and of the example. A `spec` that is given is not looked up."""
    spec = spec or ZOO[model_name]
    config = spec.config(size)
    torch.manual_seed(seed)
    model = spec.build(config).train()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    batch = make_batch(spec, config, batch_size or spec.batch_size_tiny, torch.device("cpu"), seed)
    example = {f"batch.{name}": tensor.detach() for name, tensor in batch.items()}
    with torch.no_grad():
        example["output"] = spec.output(model, batch).contiguous()
        for goal in spec.objectives:
            name = "loss" if len(spec.objectives) == 1 else f"loss.{goal.name}"
            example[name] = goal.loss(model, batch).reshape(1)

    folder.mkdir(parents=True, exist_ok=True)
    about = {"model": model_name, "size": size, "config": json.dumps(config, default=asdict)}
    weights_path = folder / f"{model_name}-{size}.weights.safetensors"
    example_path = folder / f"{model_name}-{size}.example.safetensors"
    save_file(state, weights_path, metadata=about)
    save_file(example, example_path, metadata=about)
    return weights_path, example_path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=ZOO, required=True)
    parser.add_argument("--size", choices=["full", "tiny"], default="tiny")
    parser.add_argument("--batch-size", type=int, help="default: the model's own at tiny size")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = parser.parse_args()
    for path in write(args.model, args.size, args.batch_size, args.out):
        print(path)


if __name__ == "__main__":
    main()
