#!/usr/bin/env python3
"""Tests burn-amp on this machine and measures it against PyTorch; book/src/gpu.md explains it.

    python3 run.py                       # 8 minutes at most; call it again to continue
    python3 run.py --out DIR             # keeps a copy of the results in DIR, up to date after every step
    python3 run.py --size tiny --list    # what there is to do at tiny size

* `plan.py`: the steps as a table, the most valuable first
* `step.py`: what steps have in common; `measurement.py`, `suite.py`, `once.py` are the kinds, `framework.py` who measures
* `watch.py`: a program under time limits
* `place.py`: where the bundle is, and what survives between calls
* `machine.py`: what this machine is
"""

import argparse
import signal
import subprocess
import sys
from pathlib import Path

import machine
from measurement import Measure
from place import Place
from plan import OURS, smoke_test, steps
from step import LEAST_SECONDS, Context, Step
from watch import Clock

# Kept for the last table and copy.
RESERVE_SECONDS = 5.0


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--out", type=Path, metavar="DIR", help="a folder for a copy of the results")
    add("--work", type=Path, metavar="DIR",
        help="the folder for what survives between calls; default: the bundle's folder with `-work` behind its name")
    add("--seconds", type=float, default=480.0, help="time limit of the whole call; default: 480")
    add("--suite-seconds", type=float, default=150.0, help="time limit of the tests within it; default: 150")
    add("--quiet-seconds", type=float, default=120.0,
        help="a program that writes nothing for this long is ended; default: 120")
    add("--size", choices=["full", "tiny"], default="full", help="size of the models")
    add("--only", nargs="+", default=[], metavar="STEP", help="run only the steps whose names begin with these")
    add("--retry", action="store_true", help="repeat what failed or was ended")
    add("--list", action="store_true", help="list the steps and their state, and run nothing")
    args = parser.parse_args(argv)
    if min(args.seconds, args.suite_seconds, args.quiet_seconds) <= 0:
        parser.error("times start above 0")
    return args


def show(every: list[Step], context: Context) -> None:
    for step in every:
        left = step.left(context)
        words = ", ".join(left) if isinstance(step, Measure) else f"{len(left)}"
        print(f"{step.name:28} {f'left: {words}' if left else 'done'}")


def write_table(every: list[Step], context: Context) -> None:
    """Sets ours and PyTorch's side by side in `table.md`, in the order of the steps."""
    results = context.place.results
    names = dict.fromkeys(f"{step.name}.jsonl" for step in every if isinstance(step, Measure))
    files = [results / name for name in names if (results / name).exists()]
    program = context.place.program(OURS.program)
    if files and program:
        run = subprocess.run([program, "table", *files], capture_output=True, text=True)
        (results / "table.md").write_text(run.stdout or run.stderr)


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    clock = Clock(args.seconds - RESERVE_SECONDS)
    place = Place.of(Path(__file__).resolve().parent, args.work, args.out, args.size)
    place.prepare()
    context = Context(place, clock, args.size, args.quiet_seconds, args.suite_seconds)
    machine.write(place)
    every = steps(context)
    chosen = [step for step in every if not args.only or step.name.startswith(tuple(args.only))]
    if args.list:
        show(chosen, context)
        return 0

    # A caller's time limit must not leave a program on the device.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    problem = smoke_test(context)
    place.copy_results()
    if problem:
        print(f"error: the smoke test failed, nothing else was run: {problem}", file=sys.stderr)
        return 1
    if args.retry:
        for step in chosen:
            step.forget_failures(context)
    for step in chosen:
        if not step.left(context) or not clock.allows(LEAST_SECONDS):
            continue
        clock.say(step.name)
        try:
            step.run(context)
        finally:
            write_table(every, context)
            place.copy_results()
        step.report(context)
    left = [step.name for step in chosen if step.left(context)]
    if left:
        clock.say(f"left for the next call: {len(left)} steps, the first is {left[0]}")
    clock.say(f"results: {place.out or place.results}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
