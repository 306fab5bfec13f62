"""The programs that measure: ours, and the twins in PyTorch."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import machine
from step import Context


class Framework(Protocol):
    name: str

    def is_there(self, context: Context) -> bool: ...

    def command(self, context: Context) -> list[str | Path]:
        """Returns the measuring program and its backend; the options that follow are the same for both frameworks."""

    def environment(self, context: Context) -> dict[str, str]: ...

    def about(self, context: Context) -> dict[str, str]:
        """Returns the fields of a line that identify it, for a run that could not write its own line."""


@dataclass(frozen=True)
class Ours:
    """The program `bench` of `examples/lab`."""

    name: str
    program: str

    def is_there(self, context: Context) -> bool:
        return context.place.program(self.program) is not None

    def command(self, context: Context) -> list[str | Path]:
        place = context.place
        return [place.work / "bin" / self.program, "--backend", place.about["backend"]]

    def environment(self, context: Context) -> dict[str, str]:
        return context.place.environment()

    def about(self, context: Context) -> dict[str, str]:
        about = context.place.about
        backend = about["backend"] + ("-fusion" if self.program.endswith("-fusion") else "")
        return {"framework": "burn-amp", "version": about["version"], "backend": backend}


@dataclass(frozen=True)
class PyTorch:
    """The twins of `examples/lab/pytorch`."""

    name: str
    options: tuple[str, ...] = ()

    def is_there(self, context: Context) -> bool:
        return machine.read(context.place)["torch"] is not None

    def command(self, context: Context) -> list[str | Path]:
        script = context.place.bundle / "pytorch" / "measure.py"
        return [sys.executable, script, "--device", self._device(context), *self.options]

    def environment(self, context: Context) -> dict[str, str]:
        return dict(os.environ)

    def about(self, context: Context) -> dict[str, str]:
        version = machine.read(context.place)["torch"]["version"]
        backend = self._device(context) + ("-sdpa" if "--sdpa" in self.options else "")
        return {"framework": "pytorch", "version": version, "backend": backend}

    def _device(self, context: Context) -> str:
        return "cuda" if context.place.about["backend"] == "cuda" else "cpu"
