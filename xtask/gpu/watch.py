"""A program under time limits."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from enum import Enum
from pathlib import Path

_TICK_SECONDS = 0.1
_SIGNS_SECONDS = 1.0


class Clock:
    """The time that one call may take, from now on."""

    def __init__(self, seconds: float) -> None:
        self.start = time.monotonic()
        self.end = self.start + seconds

    @property
    def left(self) -> float:
        return max(self.end - time.monotonic(), 0.0)

    def allows(self, seconds: float) -> bool:
        return seconds <= self.left

    def say(self, message: str) -> None:
        print(f"[{time.monotonic() - self.start:4.0f} s] {message}", flush=True)


class Ended(Enum):
    """Why a program is no longer running."""

    BY_ITSELF = "by itself"
    # It wrote nothing for too long.
    QUIET = "quiet"
    OUT_OF_TIME = "out of time"


def watch(
    command: list[str | Path],
    log: Path,
    env: Mapping[str, str],
    cwd: Path,
    seconds: float,
    quiet_seconds: float,
    signs: Path | None = None,
) -> tuple[Ended, int]:
    """Appends all that the program writes to `log`; returns how it ended and its status.

    The program and what it started are killed after `seconds`, or when for `quiet_seconds` neither the log nor a file in
    the folder `signs` has grown: a first run on a device tunes its kernels for minutes and fills the caches meanwhile.
    """
    with log.open("ab") as output:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, cwd=cwd,
            start_new_session=True,
        )
        try:
            why = _wait(child, [log, *([signs] if signs else [])], seconds, quiet_seconds)
        finally:
            _kill_group(child)
    return why, child.returncode


def _wait(child: subprocess.Popen, signs: list[Path], seconds: float, quiet_seconds: float) -> Ended:
    start = looked = grown = time.monotonic()
    size = _size(signs)
    while child.poll() is None:
        time.sleep(_TICK_SECONDS)
        now = time.monotonic()
        if now - looked >= min(_SIGNS_SECONDS, quiet_seconds):
            looked, before, size = now, size, _size(signs)
            grown = now if size != before else grown
        if now - start >= seconds:
            return Ended.OUT_OF_TIME
        if now - grown >= quiet_seconds:
            return Ended.QUIET
    return Ended.BY_ITSELF


def _size(paths: list[Path]) -> int:
    """Bytes of all files; one that disappears while it is counted is none."""
    total = 0
    for path in paths:
        for file in [path, *path.rglob("*")] if path.is_dir() else [path]:
            try:
                total += file.stat().st_size
            except FileNotFoundError:
                pass
    return total


def _kill_group(child: subprocess.Popen) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it and all it started ended
    child.wait()
