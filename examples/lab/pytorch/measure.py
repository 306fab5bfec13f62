"""Measures training throughput and peak memory: models x batch sizes x precisions.

    python measure.py --models mlp resnet18 --size tiny --device cpu --out results.jsonl
    python measure.py --models resnet50 bert:batch_size=16,seq_len=512 --out results.jsonl

Every step works on one fixed synthetic batch that lies on the device. The device is synchronised
inside the timed region: without it the time of queueing the kernels would be measured.
"""

import argparse
import functools
import gc
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn import functional as F

from budget import Budget, OutOfTime
from entry import Entry, device_name, percentile
from models.spec import count_parameters
from models.zoo import ZOO
from precision import PRECISIONS, Unsupported, require, set_tf32
from runs import Choice, Run, plan
from training import Training, make_batch

MIN_STEPS = 3  # fewer timed steps than this say nothing about the spread


def time_steps(
    step: Callable[[], None], count: int, sync: Callable[[], None], budget: Budget
) -> list[float]:
    """Seconds of each of `count` steps; fewer if the next one would not fit into the budget."""
    times: list[float] = []
    while len(times) < count and budget.allows(times[-1] if times else 0.0):
        start = time.perf_counter()
        step()
        sync()
        times.append(time.perf_counter() - start)
    return times


def measure(run: Run, entry: Entry, args: argparse.Namespace, budget: Budget) -> None:
    """Fills `entry` as far as the run gets; raises the errors of the model, the device or the budget."""
    device, spec, precision = args.device, ZOO[run.model], PRECISIONS[run.precision]
    require(precision, device)
    if run.sdpa and not hasattr(F, "scaled_dot_product_attention"):
        raise Unsupported("scaled_dot_product_attention needs PyTorch 2.0")
    set_tf32(precision.tf32)

    batch = make_batch(spec, run.config, run.batch_size, device)
    entry.shape = list(next(iter(batch.values())).shape)
    training = Training(spec, run.config, precision, device)
    entry.params = count_parameters(training.model)
    losses: list[torch.Tensor] = []

    def step() -> None:
        losses.append(training.step(batch))

    cuda = device.type == "cuda"
    sync = functools.partial(torch.cuda.synchronize, device) if cuda else lambda: None
    sync()
    time_steps(step, args.warmup, sync, budget)
    if cuda:  # after the warm-up, in which cuDNN tries algorithms with large workspaces
        torch.cuda.reset_peak_memory_stats(device)
    times = time_steps(step, args.steps, sync, budget)
    if len(times) < min(args.steps, MIN_STEPS):
        raise OutOfTime

    median = percentile(times, 50)
    entry.steps = len(times)
    entry.step_ms_median = median * 1e3
    entry.step_ms_p10 = percentile(times, 10) * 1e3
    entry.step_ms_p90 = percentile(times, 90) * 1e3
    entry.items_per_s = run.batch_size / median
    entry.peak_memory_bytes = torch.cuda.max_memory_allocated(device) if cuda else None
    values = torch.stack(losses).float().tolist()
    entry.loss_first, entry.loss_last = values[0], values[-1]
    entry.skipped_steps, entry.loss_scale = training.skipped_steps, training.loss_scale
    for index, value in enumerate(values, 1):
        if not math.isfinite(value):
            entry.error = f"non-finite loss in step {index}"
            break


def measure_or_say_why(run: Run, args: argparse.Namespace, budget: Budget) -> Entry:
    """Returns an entry even if the run fails; raises `OutOfTime` if the budget ends."""
    entry = Entry(
        model=run.model, size=run.size, batch_size=run.batch_size, precision=run.precision,
        warmup=args.warmup, device=device_name(args.device),
        backend=args.device.type + ("-sdpa" if run.sdpa else ""),
    )
    try:
        measure(run, entry, args, budget)
    except OutOfTime:
        raise
    except Exception as error:  # such as out of memory: one failed run must not stop those after it
        first_line = str(error).partition("\n")[0]
        entry.error = f"{type(error).__name__}: {first_line}"
    return entry


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = [Choice.parse(name) for name in ZOO]
    here = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    add = parser.add_argument
    add("--models", nargs="+", type=Choice.parse, default=every, metavar="NAME[:FIELD=NUMBER,…]",
        help=f"the models to measure, of {', '.join(ZOO)}; default: all")
    add("--batch-size", nargs="+", type=int, default=[], help="items per step; default: the model's own")
    add("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    add("--size", choices=["full", "tiny"], default="full")
    add("--steps", type=int, default=20, help="timed steps")
    add("--warmup", type=int, default=5, help="steps before the timed ones")
    add("--device", type=torch.device, default=here)
    add("--sdpa", action="store_true", help="fused attention instead of the explicit one")
    add("--out", type=Path, required=True, help="file to append JSON lines to")
    add("--budget-seconds", type=float, help="stop after this time and leave out the remaining runs")
    args = parser.parse_args(argv)
    if args.steps < 1 or args.warmup < 0 or any(size < 1 for size in args.batch_size):
        parser.error("--steps and --batch-size start at 1, --warmup at 0")
    return args


def main(argv: list[str] | None = None) -> None:
    args = arguments(argv)
    budget = Budget(args.budget_seconds)
    torch.backends.cudnn.benchmark = True  # all shapes are constant
    runs = list(plan(args))
    slowest_setup = 0.0  # seconds of any run yet, without its timed steps
    for index, run in enumerate(runs):
        start = time.perf_counter()
        try:
            if not budget.allows(slowest_setup):
                raise OutOfTime
            entry = measure_or_say_why(run, args, budget)
        except OutOfTime:
            left_out = "; ".join(map(str, runs[index:]))
            print(f"{args.budget_seconds} s are spent, left out: {left_out}", file=sys.stderr)
            return
        gc.collect()
        if args.device.type == "cuda":
            torch.cuda.empty_cache()
        entry.append_to(args.out)
        print(f"[{index + 1}/{len(runs)}] {run}: {entry.summary()}", flush=True)
        timed = entry.steps * (entry.step_ms_median or 0.0) / 1e3
        slowest_setup = max(slowest_setup, time.perf_counter() - start - timed)


if __name__ == "__main__":
    main()
