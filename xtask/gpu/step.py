"""The interface of all steps: their results say what is left to do, so an interrupted step resumes where it stopped."""

from dataclasses import dataclass
from typing import Protocol

from place import Place
from watch import Clock

# Nothing is started with less time than this left.
LEAST_SECONDS = 15.0


@dataclass(frozen=True)
class Context:
    place: Place
    clock: Clock
    size: str
    quiet_seconds: float
    suite_seconds: float


class Step(Protocol):
    name: str

    def is_there(self, context: Context) -> bool:
        """Whether the bundle and this machine have what it runs."""

    def left(self, context: Context) -> list[str]:
        """Returns what is left to do."""

    def forget_failures(self, context: Context) -> None:
        """Marks what failed to be done again."""

    def run(self, context: Context) -> None:
        """Does what is left, as far as the time allows."""

    def report(self, context: Context) -> None:
        """Describes the results so far."""
