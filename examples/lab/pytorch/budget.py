"""The time that one call may take."""

import math
import time


class OutOfTime(Exception):
    """The budget ended before enough steps were timed."""


class Budget:
    """Wall-clock seconds from now on; None means no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.end = math.inf if seconds is None else time.perf_counter() + seconds

    def allows(self, seconds: float) -> bool:
        return time.perf_counter() + seconds <= self.end
