"""A model in some precisions by one framework, measured."""

import json
from dataclasses import dataclass
from pathlib import Path

import machine
from framework import Framework
from step import LEAST_SECONDS, Context
from watch import Ended, watch

WARMUP = 5
STEPS = 20


@dataclass(frozen=True)
class Work:
    """A model and its batch, as both frameworks read them: `name:field=number,…`."""

    name: str
    full: str
    tiny: str

    def choice(self, size: str) -> str:
        return self.full if size == "full" else self.tiny


@dataclass(frozen=True)
class Measure:
    """A model in some precisions by one framework: a line in a file of JSON lines for each."""

    work: Work
    framework: Framework
    precisions: list[str]

    @property
    def name(self) -> str:
        return f"{self.work.name}.{self.framework.name}"

    def is_there(self, context: Context) -> bool:
        return self.framework.is_there(context)

    def left(self, context: Context) -> list[str]:
        done = {entry["precision"] for entry in self._entries(context)}
        return [precision for precision in self.precisions if precision not in done]

    def forget_failures(self, context: Context) -> None:
        self._write(context, [entry for entry in self._entries(context) if not failed(entry)])

    def run(self, context: Context) -> None:
        place, clock = context.place, context.clock
        while (left := self.left(context)) and clock.allows(LEAST_SECONDS):
            before = self._entries(context)
            command = [
                *self.framework.command(context), "--models", self.work.choice(context.size),
                "--size", context.size, "--precision", *left, "--warmup", str(WARMUP),
                "--steps", str(STEPS), "--budget-seconds", f"{clock.left:.0f}", "--out", self._file(context),
            ]
            why, status = watch(
                command, place.results / f"{self.name}.log", self.framework.environment(context),
                place.work, clock.left, context.quiet_seconds, place.cache,
            )
            place.remove_locks()
            entries = self._entries(context)[len(before):]
            if why is Ended.OUT_OF_TIME:
                return
            measured = {entry["precision"] for entry in entries}
            under_way = next((precision for precision in left if precision not in measured), None)
            if why is Ended.QUIET and under_way:
                error = f"ended: nothing for {context.quiet_seconds:.0f} s"
                self._write(context, [*before, *entries, self._failure(context, under_way, error)])
            elif status != 0 and under_way:
                error = f"the program ended with status {status}"
                self._write(context, [*before, *entries, self._failure(context, under_way, error)])
            elif not entries:
                return  # it had no time for what is left
            else:
                self._write(context, [*before, *up_to_second_failure(entries)])

    def report(self, context: Context) -> None:
        for entry in self._entries(context):
            if entry["precision"] not in self.precisions:
                continue
            if failed(entry):
                print(f"         {entry['precision']:20} {entry['error']}")
                continue
            numbers = f"{entry['step_ms_median']:.2f} ms, {entry['items_per_s']:.1f} items/s"
            print(f"         {entry['precision']:20} {numbers}{', ' + entry['error'] if entry['error'] else ''}")

    def _file(self, context: Context) -> Path:
        return context.place.results / f"{self.name}.jsonl"

    def _entries(self, context: Context) -> list[dict]:
        file = self._file(context)
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def _write(self, context: Context, entries: list[dict]) -> None:
        if entries != self._entries(context):
            lines = [json.dumps(entry) + "\n" for entry in entries]
            self._file(context).write_text("".join(lines))

    def _failure(self, context: Context, precision: str, error: str) -> dict:
        """A line as both frameworks write it; what it lacks counts as `null`."""
        model, _, fields = self.work.choice(context.size).partition(":")
        batch_size = int(dict(field.split("=") for field in fields.split(","))["batch_size"])
        here = machine.read(context.place)
        device = here["gpu"]["name"] if here["gpu"] else here["processor"]
        return {
            "model": model, "size": context.size, "batch_size": batch_size, "precision": precision,
            "warmup": WARMUP, "device": device, "steps": 0, "error": error,
        } | self.framework.about(context)


def failed(entry: dict) -> bool:
    """Whether it has no numbers; a loss that was not finite is an error with numbers."""
    return entry.get("step_ms_median") is None


def up_to_second_failure(entries: list[dict]) -> list[dict]:
    """The runs of one process without failures that an earlier one may have caused: a full device stays full."""
    failures = [entry for entry in entries if failed(entry)]
    return [entry for entry in entries if entry not in failures[1:]]
