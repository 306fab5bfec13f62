"""What all steps have in common: their results tell what is still to be done, so a step goes on where it was ended."""

from dataclasses import dataclass
from typing import Protocol

from place import Place
from watch import Clock

# With less than this left nothing is begun.
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
        """What is still to be done."""

    def forget_failures(self, context: Context) -> None:
        """Makes what failed something that is still to be done."""

    def run(self, context: Context) -> None:
        """Does what is left, as far as the time reaches."""

    def report(self, context: Context) -> None:
        """Says what there is now."""
