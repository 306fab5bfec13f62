"""A program that is run once."""

from dataclasses import dataclass
from pathlib import Path

from step import Context
from watch import Ended, watch


@dataclass(frozen=True)
class Once:
    """A program that is run once; `NAME.txt` is its output."""

    name: str
    program: str
    arguments: tuple[str, ...] = ()

    def is_there(self, context: Context) -> bool:
        return context.place.program(self.program) is not None

    def left(self, context: Context) -> list[str]:
        return [] if self._file(context).exists() else [self.program]

    def forget_failures(self, context: Context) -> None:
        """Does nothing: a failure leaves no result."""

    def run(self, context: Context) -> None:
        place, clock = context.place, context.clock
        log = place.results / f"{self.name}.log"
        log.unlink(missing_ok=True)
        command = [place.program(self.program), *self.arguments]
        why, status = watch(
            command, log, place.environment(), place.work, clock.left, context.quiet_seconds, place.cache
        )
        if why is Ended.BY_ITSELF and status == 0:
            log.rename(self._file(context))

    def report(self, context: Context) -> None:
        file = self._file(context)
        print(f"         {file if file.exists() else 'failed, see its log'}")

    def _file(self, context: Context) -> Path:
        return context.place.results / f"{self.name}.txt"
