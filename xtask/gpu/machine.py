"""Describes this machine in `machine.json`, next to the results."""

import datetime
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from place import Place, cuda_path

# A first import of PyTorch may read gigabytes.
_SECONDS = 120
_TORCH = (
    "import json, torch; cuda = torch.cuda.is_available(); print(json.dumps({"
    "'version': torch.__version__, 'cuda': torch.version.cuda, "
    "'device': torch.cuda.get_device_name() if cuda else 'cpu'}))"
)


def write(place: Place) -> None:
    """Writes what the machine reports; the rest is `null`."""
    about = {
        "date": datetime.date.today().isoformat(),
        "bundle": place.about,
        "gpu": _gpu(),
        "cuda": _cuda(),
        "torch": _torch(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
    }
    (place.results / "machine.json").write_text(json.dumps(about, indent=2) + "\n")


def read(place: Place) -> dict:
    return json.loads((place.results / "machine.json").read_text())


def _output(*command: str) -> str | None:
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def _gpu() -> dict[str, str] | None:
    fields = ["name", "driver_version", "memory.total", "power.limit", "clocks.max.sm"]
    line = _output("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader")
    return dict(zip(fields, line.splitlines()[0].split(", "))) if line else None


def _cuda() -> dict[str, str | None] | None:
    path = cuda_path(os.environ)
    if path is None:
        return None
    about = _output(str(path / "bin" / "nvcc"), "--version")
    return {"path": str(path), "nvcc": about and about.splitlines()[-1]}


def _torch() -> dict[str, str | None] | None:
    about = _output(sys.executable, "-c", _TORCH)
    return json.loads(about.splitlines()[-1]) if about else None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
