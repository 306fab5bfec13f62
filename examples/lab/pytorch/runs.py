"""The plan of a session: the command line's models x batch sizes x precisions, as a list."""

import argparse
import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from models.zoo import ZOO


class Choice(NamedTuple):
    """A model with the fields of its configuration that the command line replaces."""

    text: str
    model: str
    batch_size: int | None
    overrides: dict[str, int]

    @classmethod
    def parse(cls, text: str) -> "Choice":
        """Reads `name` or `name:field=number,…`; the field `batch_size` may be among them."""
        model, _, rest = text.partition(":")
        if model not in ZOO:
            raise argparse.ArgumentTypeError(f"unknown model `{model}`; known: {', '.join(ZOO)}")
        try:
            pairs = (pair.split("=") for pair in rest.split(",") if pair)
            overrides = {key: int(value) for key, value in pairs}
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text}: expected name:field=number,…") from None
        fields = dataclasses.asdict(ZOO[model].full())
        known = ["batch_size", *(key for key, value in fields.items() if type(value) is int)]
        for key, value in overrides.items():
            if key not in known:
                problem = f"{model} has no number `{key}`; it has {', '.join(known)}"
                raise argparse.ArgumentTypeError(problem)
            if value < 1:
                raise argparse.ArgumentTypeError(f"{text}: `{key}` starts at 1")
        batch_size = overrides.pop("batch_size", None)
        return cls(text, model, batch_size, overrides)


class Run(NamedTuple):
    """One line of the result, still to be measured."""

    choice: str
    model: str
    config: Any
    size: str
    batch_size: int
    precision: str

    @property
    def sdpa(self) -> bool:
        return getattr(self.config, "sdpa", False)

    def __str__(self) -> str:
        return f"{self.choice} {self.size} x{self.batch_size} {self.precision}"


def plan(args: argparse.Namespace) -> Iterator[Run]:
    """The runs in the order of the command line: precision varies fastest, then batch size."""
    for choice in args.models:
        spec = ZOO[choice.model]
        config = dataclasses.replace(spec.config(args.size), **choice.overrides)
        if args.sdpa and hasattr(config, "sdpa"):
            config = dataclasses.replace(config, sdpa=True)
        own = [choice.batch_size] if choice.batch_size else None
        for batch_size in own or args.batch_size or [spec.batch_size(args.size)]:
            for precision in args.precision:
                yield Run(choice.text, choice.model, config, args.size, batch_size, precision)
