"""One measured run as a line of JSON; README.md gives the unit of every field."""

import json
import math
import platform
from dataclasses import asdict, dataclass
from pathlib import Path

import torch


@dataclass
class Entry:
    model: str
    size: str
    batch_size: int
    precision: str
    warmup: int
    device: str
    backend: str
    framework: str = "pytorch"
    version: str = torch.__version__
    params: int | None = None
    shape: list[int] | None = None
    steps: int = 0
    step_ms_median: float | None = None
    step_ms_p10: float | None = None
    step_ms_p90: float | None = None
    items_per_s: float | None = None
    peak_memory_bytes: int | None = None
    loss_first: float | None = None
    loss_last: float | None = None
    skipped_steps: int | None = None
    loss_scale: float | None = None
    error: str | None = None

    def append_to(self, path: Path) -> None:
        """Writes the line and closes the file, so that a killed process keeps what it measured."""
        fields = {name: _finite(value) for name, value in asdict(self).items()}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields, allow_nan=False) + "\n")

    def summary(self) -> str:
        if self.step_ms_median is None:
            return str(self.error)
        numbers = f"{self.step_ms_median:.2f} ms, {self.items_per_s:.1f} items/s"
        return f"{numbers}, {self.error or f'loss {self.loss_last:.4f}'}"


def percentile(values: list[float], percent: float) -> float:
    """The percentile of at least one value, interpolated linearly between neighbours."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = math.ceil(place)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _finite(value):
    """JSON has no inf and no NaN: they become null, and `error` says why."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
