"""The tests of a suite, each once, in several processes: compiling their kernels takes longer than running them."""

import functools
import os
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from step import LEAST_SECONDS, Context
from watch import Clock, Ended, watch

_TEST = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. ", re.MULTILINE)
_OUTCOME = re.compile(r"^(ok|FAILED|ignored)(?:, .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Suite:
    """`NAME.txt` has a line for each test that ended, `NAME-PROCESS.log` what they wrote."""

    name: str
    program: str
    # Each keeps a core busy, with compiling or with waiting for the device.
    processes: int = len(os.sched_getaffinity(0))
    # Held while `NAME.txt` is read or written.
    _lock: threading.RLock = field(default_factory=threading.RLock, compare=False)

    def is_there(self, context: Context) -> bool:
        return context.place.program(self.program) is not None

    def left(self, context: Context) -> list[str]:
        done = self._outcomes(context)
        return [test for test in tests_of(context.place.program(self.program)) if test not in done]

    def forget_failures(self, context: Context) -> None:
        outcomes = self._outcomes(context)
        self._write(context, {test: how for test, how in outcomes.items() if how in ("ok", "ignored")})

    def run(self, context: Context) -> None:
        end = Clock(min(context.suite_seconds, context.clock.left))
        left = self.left(context)
        # Neighbours share kernels.
        share = -(-len(left) // self.processes) or 1
        shares = [left[start:start + share] for start in range(0, len(left), share)]
        with ThreadPoolExecutor(self.processes) as pool:
            for _ in pool.map(lambda process: self._run(context, end, process, shares[process]), range(len(shares))):
                pass

    def _run(self, context: Context, end: Clock, process: int, share: list[str]) -> None:
        """Runs a share of the tests in a process, and in another one if that ends before its time."""
        place = context.place
        log = place.results / f"{self.name}-{process}.log"
        # Processes that write into one cache would wait for each other.
        folder, cache = place.with_own_cache(f"{self.name}-{process}")
        while (left := [test for test in self.left(context) if test in share]) and end.allows(LEAST_SECONDS):
            start = log.stat().st_size if log.exists() else 0
            # One at a time, so that the log shows which one is running; not captured, so that it shows why one failed.
            command = [place.program(self.program), "--exact", "--test-threads=1", "--nocapture", *left]
            try:
                why, status = watch(
                    command, log, place.environment(), folder, end.left, context.quiet_seconds, cache
                )
            finally:  # also when the script itself is ended
                outcomes, running = read_log(log.read_bytes()[start:].decode(errors="replace"))
                self._add(context, outcomes)
            if running and why is not Ended.OUT_OF_TIME:
                self._add(context, {running: "quiet" if why is Ended.QUIET else f"status {status}"})
            elif not outcomes:
                return

    def report(self, context: Context) -> None:
        outcomes = self._outcomes(context)
        count = {how: list(outcomes.values()).count(how) for how in sorted(set(outcomes.values()))}
        words = [f"{number} {how}" for how, number in count.items()]
        words.append(f"{len(self.left(context))} left")
        print(f"         {', '.join(words)}")
        for test, how in outcomes.items():
            if how not in ("ok", "ignored"):
                print(f"         {how}: {test}")

    def _outcomes(self, context: Context) -> dict[str, str]:
        file = self._file(context)
        with self._lock:
            lines = file.read_text().splitlines() if file.exists() else []
        return {test: how for test, how in (line.split("  ", 1) for line in lines)}

    def _add(self, context: Context, outcomes: dict[str, str]) -> None:
        with self._lock:
            self._write(context, self._outcomes(context) | outcomes)

    def _write(self, context: Context, outcomes: dict[str, str]) -> None:
        lines = [f"{test}  {how}\n" for test, how in outcomes.items()]
        with self._lock:
            self._file(context).write_text("".join(lines))

    def _file(self, context: Context) -> Path:
        return context.place.results / f"{self.name}.txt"


@functools.cache
def tests_of(program: Path) -> list[str]:
    command = [program, "--list", "--format=terse"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]


def read_log(text: str) -> tuple[dict[str, str], str | None]:
    """How tests ended, and which one had not; what they wrote themselves stands between a name and its outcome."""
    text = re.split(r"^(?:failures:|successes:|test result:)", text, maxsplit=1, flags=re.MULTILINE)[0]
    outcomes: dict[str, str] = {}
    running = None
    names = list(_TEST.finditer(text))
    for index, name in enumerate(names):
        end = names[index + 1].start() if index + 1 < len(names) else len(text)
        found = _OUTCOME.findall(text[name.end():end])
        if found:
            outcomes[name[1]] = found[-1].lower()
        else:
            running = name[1]
    return outcomes, running
