"""The places of the bundle and of what survives between calls: the programs, the caches and the results.

    WORK/bin                unpacked programs
    WORK/cubecl.toml        says where CubeCL keeps its caches
    WORK/own/PROCESS        the same for one of several processes: its folder, with caches of its own
    WORK/cache/autotune     which kernel was the fastest; CubeCL checks that its choices are still the same
    WORK/cache/BUILD        compiled kernels: known by their names only, so of one build; at first those of the bundle
    WORK/cache/driver       what the CUDA driver made of them
    WORK/results            what was measured, SIZE behind it unless full
    WORK/earlier/BUILD      results of builds before this one; those of PyTorch stay
"""

import glob
import hashlib
import json
import os
import re
import shutil
import site
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PROGRAMS = "programs.tar.xz"
# Kernels that were compiled along with the programs; `bundle.json` says for which GPUs.
KERNELS = "kernels.tar.xz"

# Where CUDA is installed, and where Python packages bring parts of it.
_CUDA_FOLDERS = ["/usr/local/cuda", "/opt/cuda", "/usr/local/cuda-*"]
_COMPILERS = ["lib64/libnvrtc.so*", "lib/libnvrtc.so*", "targets/*/lib/libnvrtc.so*"]
_WHEEL_COMPILERS = ["nvidia/cuda_nvrtc/lib/libnvrtc.so*", "nvidia/cu*/lib/libnvrtc.so*"]


@dataclass(frozen=True)
class Place:
    bundle: Path
    work: Path
    # A folder for copies of the results.
    out: Path | None
    results: Path

    @classmethod
    def of(cls, bundle: Path, work: Path | None, out: Path | None, size: str) -> "Place":
        work = (work or bundle.with_name(f"{bundle.name}-work")).absolute()
        results = work / ("results" if size == "full" else f"results-{size}")
        return cls(bundle, work, out and out.absolute(), results)

    @cached_property
    def about(self) -> dict:
        """What `cargo xtask gpu` says about the build."""
        return json.loads((self.bundle / "bundle.json").read_text())

    @cached_property
    def build(self) -> str:
        """Returns a name that differs between builds."""
        return hashlib.sha256((self.bundle / PROGRAMS).read_bytes()).hexdigest()[:12]

    @property
    def cache(self) -> Path:
        return self.work / "cache"

    def program(self, name: str) -> Path | None:
        path = self.work / "bin" / name
        return path if path.exists() else None

    def prepare(self) -> None:
        """Unpacks a new build and puts the results of the previous one aside."""
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "cubecl.toml").write_text(_cubecl_toml(self.cache / "autotune", self.cache / self.build))
        mark = self.work / "build.txt"
        before = mark.read_text() if mark.exists() else None
        if before != self.build:
            shutil.rmtree(self.work / "bin", ignore_errors=True)
            if before:
                shutil.rmtree(self.cache / before, ignore_errors=True)
                self._put_aside(before)
            self._unpack(PROGRAMS, self.work / "bin")
            if _can_load(self.about.get("kernels")):
                self._unpack(KERNELS, self.cache / self.build)
            mark.write_text(self.build)
        self.results.mkdir(exist_ok=True)
        self.remove_locks()

    def with_own_cache(self, process: str) -> tuple[Path, Path]:
        """Returns a folder to run a process in, and the folder of its caches."""
        folder = self.work / "own" / process
        cache = folder / self.build
        cache.mkdir(parents=True, exist_ok=True)
        (folder / "cubecl.toml").write_text(_cubecl_toml(cache / "autotune", cache))
        for lock in cache.rglob("*.lock"):
            lock.unlink()
        return folder, cache

    def remove_locks(self) -> None:
        """A program that was killed may have left locks on caches, for which the next one would wait 30 s."""
        for lock in self.cache.rglob("*.lock"):
            lock.unlink()

    def copy_results(self) -> None:
        if self.out:
            shutil.copytree(self.results, self.out, dirs_exist_ok=True)

    def environment(self) -> dict[str, str]:
        """Returns the environment of burn-amp's programs."""
        env = dict(os.environ)
        driver_cache = self.cache / "driver"
        driver_cache.mkdir(parents=True, exist_ok=True)
        env |= {"CUDA_CACHE_PATH": str(driver_cache), "CUDA_CACHE_MAXSIZE": str(1 << 30)}
        if cuda := cuda_path(os.environ):
            env["CUDA_PATH"] = str(cuda)
            if compiler := _compiler(cuda):
                folders = [self._linked(compiler), compiler.parent, os.environ.get("LD_LIBRARY_PATH")]
                env["LD_LIBRARY_PATH"] = os.pathsep.join(str(folder) for folder in folders if folder)
        return env

    def _unpack(self, name: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with tarfile.open(self.bundle / name) as archive:
                archive.extractall(folder)
        except tarfile.ReadError:  # a Python without xz
            command = ["tar", "--extract", "--file", self.bundle / name, "--directory", folder]
            subprocess.run(command, check=True)

    def _linked(self, compiler: Path) -> Path:
        """A folder with the compiler under its plain name: programs ask for the names of few versions."""
        folder = self.work / "lib"
        folder.mkdir(exist_ok=True)
        link = folder / "libnvrtc.so"
        link.unlink(missing_ok=True)
        link.symlink_to(compiler)
        return folder

    def _put_aside(self, before: str) -> None:
        for results in self.work.glob("results*"):
            for file in results.iterdir():
                if file.name.endswith(".pytorch.jsonl"):
                    continue
                aside = self.work / "earlier" / before / results.name
                aside.mkdir(parents=True, exist_ok=True)
                file.rename(aside / file.name)


def _cubecl_toml(tuned: Path, kernels: Path) -> str:
    autotune, compilation = (json.dumps(str(folder)) for folder in (tuned, kernels))
    return f"[autotune]\ncache = {{ file = {autotune} }}\n\n[compilation]\ncache = {{ file = {compilation} }}\n"


def cuda_path(env: Mapping[str, str]) -> Path | None:
    """The folder of the CUDA toolkit, whose headers kernels are compiled with."""
    if "CUDA_PATH" in env:
        return Path(env["CUDA_PATH"])
    found = [Path(path) for pattern in _CUDA_FOLDERS for path in sorted(glob.glob(pattern), reverse=True)]
    return next((path for path in found if (path / "include").is_dir()), None)


def _can_load(kernels: dict[str, str] | None) -> bool:
    """Whether the driver of the first GPU loads kernels compiled for a compute capability by a CUDA version."""
    if kernels is None:
        return False
    capability, cuda = _gpu()
    numbers = [tuple(map(int, version.split("."))) for version in (cuda or "0.0", kernels["cuda"])]
    return capability == kernels["compute_capability"] and numbers[0] >= numbers[1]


def _gpu() -> tuple[str | None, str | None]:
    """The compute capability of the first GPU, as `9.0`, and the newest CUDA version of its driver."""
    try:
        query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
        capability = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout.split()
        about = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    cuda = re.search(r"CUDA Version: *([0-9]+\.[0-9]+)", about)
    return capability[0] if capability else None, cuda and cuda[1]


def _compiler(cuda: Path) -> Path | None:
    """The toolkit's run-time compiler, or one that came with a Python package."""
    found = [path for pattern in _COMPILERS for path in sorted(cuda.glob(pattern))]
    for packages in map(Path, [*site.getsitepackages(), site.getusersitepackages()]):
        found += [path for pattern in _WHEEL_COMPILERS for path in sorted(packages.glob(pattern))]
    return found[0] if found else None
