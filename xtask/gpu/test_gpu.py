"""The script of the bundle with programs that hang, crash and fail on purpose: `pytest`."""

import json
import os
import shutil
import sys
import tarfile
import textwrap
from pathlib import Path

import pytest

import place
import run
from measurement import Measure, Work, failed, up_to_second_failure
from once import Once
from place import Place
from plan import OURS
from step import Context
from suite import Suite, read_log
from watch import Clock, Ended, watch

HERE = Path(__file__).parent

# Knows the options of `bench` as far as the script gives them; what it does in a precision stands in `behaviour.json`.
BENCH = """
    import itertools, json, sys, time
    arguments = sys.argv[1:]
    if arguments[0] == "table":
        print("a table of", len(arguments) - 1)
        sys.exit()
    after = lambda name: arguments[arguments.index(name) + 1]
    precisions = arguments[arguments.index("--precision") + 1:]
    for precision in itertools.takewhile(lambda word: not word.startswith("--"), precisions):
        how = json.load(open("behaviour.json")).get(precision, "ok")
        if how == "hang":
            time.sleep(1000)
        if how == "crash":
            sys.exit(3)
        entry = {"model": after("--models"), "precision": precision, "error": None}
        if how == "fail":
            entry |= {"step_ms_median": None, "error": "panic: out of memory"}
        else:
            entry |= {"step_ms_median": 2.0, "items_per_s": 4.0}
        with open(after("--out"), "a") as file:
            file.write(json.dumps(entry) + "\\n")
        print(precision, flush=True)
"""

SUITE = """
    import sys, time
    if "--list" in sys.argv:
        print("good: test\\nhangs: test\\nwrong: test")
        sys.exit()
    for name in sys.argv[4:]:
        print(f"test {name} ... ", end="", flush=True)
        if name == "hangs":
            time.sleep(1000)
        print("words of its own\\nok" if name == "good" else "FAILED", flush=True)
    print("\\ntest result: FAILED. 1 passed")
    sys.exit(101)
"""


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle as `cargo xtask gpu` makes it, of programs in Python."""
    folder = tmp_path / "bundle"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    pack(folder, bench=BENCH, suite=SUITE)
    (folder / "bundle.json").write_text('{"backend": "vulkan", "version": "0.1.0"}')
    return folder


def pack(folder: Path, **programs: str) -> None:
    with tarfile.open(folder / place.PROGRAMS, "w:xz") as archive:
        for name, source in programs.items():
            file = folder / name
            file.write_text(f"#!{sys.executable}\n{textwrap.dedent(source)}")
            file.chmod(0o755)
            archive.add(file, arcname=name)
            file.unlink()


def context(bundle: Path, behaviour: dict[str, str] | None = None, seconds: float = 60.0) -> Context:
    here = Place.of(bundle, None, None, "full")
    here.prepare()
    (here.work / "behaviour.json").write_text(json.dumps(behaviour or {}))
    (here.results / "machine.json").write_text('{"gpu": null, "processor": "a CPU", "torch": null}')
    return Context(here, Clock(seconds), "full", quiet_seconds=2.0, suite_seconds=60.0)


def measure() -> Measure:
    return Measure(Work("net", "net:batch_size=8", tiny=""), OURS, ["f32", "amp-bf16", "amp-f16"])


def errors(step: Measure, context: Context) -> dict[str, str | None]:
    lines = (context.place.results / f"{step.name}.jsonl").read_text().splitlines()
    return {entry["precision"]: entry["error"] for entry in map(json.loads, lines)}


def test_a_program_is_ended_when_it_is_quiet_or_out_of_time(tmp_path):
    log, env = tmp_path / "log", dict(os.environ)
    sleeps = ["sh", "-c", "echo begun; sleep 1000"]
    assert watch(sleeps, log, env, tmp_path, 60.0, 1.0)[0] is Ended.QUIET
    assert watch(sleeps, log, env, tmp_path, 1.0, 60.0)[0] is Ended.OUT_OF_TIME
    assert watch(["sh", "-c", "exit 7"], log, env, tmp_path, 60.0, 60.0) == (Ended.BY_ITSELF, 7)
    assert log.read_text() == "begun\nbegun\n"


def test_a_program_that_fills_the_caches_is_not_quiet(tmp_path):
    tunes = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i >> cache/log; sleep 0.5; done"]
    log, env, cache = tmp_path / "log", dict(os.environ), tmp_path / "cache"
    cache.mkdir()
    assert watch(tunes, log, env, tmp_path, 60.0, 2.5, cache) == (Ended.BY_ITSELF, 0)
    assert watch(tunes, log, env, tmp_path, 60.0, 2.5)[0] is Ended.QUIET


def test_a_run_that_hangs_or_crashes_costs_no_other(bundle):
    here, step = context(bundle, {"f32": "hang", "amp-bf16": "crash"}), measure()
    step.run(here)
    assert errors(step, here) == {
        "f32": "ended: nothing for 2 s",
        "amp-bf16": "the program ended with status 3",
        "amp-f16": None,
    }
    assert step.left(here) == []
    step.forget_failures(here)
    assert step.left(here) == ["f32", "amp-bf16"]


def test_what_failed_after_a_failure_is_tried_in_a_process_of_its_own(bundle):
    here, step = context(bundle, {"f32": "fail", "amp-bf16": "fail"}), measure()
    step.run(here)
    assert (here.place.results / f"{step.name}.log").read_text().split() == [
        "f32", "amp-bf16", "amp-f16",  # of which the second is forgotten
        "amp-bf16",
    ]
    assert list(errors(step, here)) == ["f32", "amp-f16", "amp-bf16"]


def test_only_later_failures_are_doubted():
    lines = [{"step_ms_median": ms, "n": n} for n, ms in enumerate([1.0, None, 2.0, None])]
    assert up_to_second_failure(lines) == lines[:3]
    assert not failed({"step_ms_median": 1.0, "error": "non-finite loss in step 3"})


def test_nothing_is_written_about_what_the_clock_ended(bundle):
    here, step = context(bundle, {"amp-bf16": "hang"}, seconds=17.0), measure()
    object.__setattr__(here, "quiet_seconds", 60.0)
    step.run(here)
    assert errors(step, here) == {"f32": None}
    assert step.left(here) == ["amp-bf16", "amp-f16"]


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_a_suite_goes_on_after_a_test_that_hangs(bundle, processes):
    here, suite = context(bundle), Suite("suite", "suite", processes)
    suite.run(here)
    outcomes = (here.place.results / "suite.txt").read_text().splitlines()
    assert sorted(outcomes) == ["good  ok", "hangs  quiet", "wrong  failed"]
    assert suite.left(here) == []
    suite.forget_failures(here)
    assert suite.left(here) == ["hangs", "wrong"]


def test_the_log_of_a_suite_tells_what_ended_and_what_was_running():
    log = (
        "\nrunning 4 tests\ntest a::b ... ok\n"
        "test a::c - should panic ... \nthread 'main' panicked at x.rs:1:2:\nboom\nok\n"
        "test d ... ignored, Vulkan has no F64\ntest e ... \nhalf a sen"
    )
    assert read_log(log) == ({"a::b": "ok", "a::c": "ok", "d": "ignored"}, "e")
    done = "test a ... FAILED\n\nfailures:\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed\n"
    assert read_log(done) == ({"a": "failed"}, None)


def test_another_build_starts_its_own_results_and_keeps_pytorchs(bundle):
    first = context(bundle).place
    for name in ["gpt.burn-amp.jsonl", "gpt.pytorch.jsonl"]:
        (first.results / name).write_text("{}\n")
    context(bundle)
    assert (first.results / "gpt.burn-amp.jsonl").exists(), "the same build"

    pack(bundle, bench=BENCH + "# changed\n")
    second = context(bundle).place
    assert second.build != first.build
    assert not (second.results / "gpt.burn-amp.jsonl").exists()
    assert (second.results / "gpt.pytorch.jsonl").exists()
    assert (second.work / "earlier" / first.build / "results" / "gpt.burn-amp.jsonl").exists()


@pytest.mark.parametrize(
    ("gpu", "finds"),
    [(("9.0", "12.9"), True), (("9.0", "13.0"), True), (("9.0", "12.8"), False), (("8.0", "13.0"), False), ((None, None), False)],
)
def test_kernels_of_the_bundle_are_used_where_they_can_be_loaded(bundle, tmp_path, monkeypatch, gpu, finds):
    about = json.loads((bundle / "bundle.json").read_text())
    about["kernels"] = {"compute_capability": "9.0", "cuda": "12.9"}
    (bundle / "bundle.json").write_text(json.dumps(about))
    with tarfile.open(bundle / place.KERNELS, "w:xz") as archive:
        (tmp_path / "ptx").write_text("a kernel")
        archive.add(tmp_path / "ptx", arcname="cuda/ptx")
    monkeypatch.setattr(place, "_gpu", lambda: gpu)
    here = Place.of(bundle, tmp_path / "work", None, "full")
    here.prepare()
    assert (here.cache / here.build / "cuda" / "ptx").exists() == finds
    more = here.cache / here.build / "more"
    more.parent.mkdir(parents=True, exist_ok=True)
    more.write_text("compiled here")
    here.prepare()
    assert more.exists(), "the same build"


def test_programs_find_the_caches_and_a_compiler_of_any_version(bundle, tmp_path, monkeypatch):
    here = Place.of(bundle, tmp_path / "my work", None, "full")
    here.prepare()
    assert f'file = "{here.work}/cache/autotune"' in (here.work / "cubecl.toml").read_text()

    compiler = tmp_path / "cuda" / "lib64" / "libnvrtc.so.13"
    compiler.parent.mkdir(parents=True)
    compiler.touch()
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda"))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
    linked, own, elsewhere = here.environment()["LD_LIBRARY_PATH"].split(os.pathsep)
    assert (Path(linked) / "libnvrtc.so").resolve() == compiler
    assert (own, elsewhere) == (str(compiler.parent), "/elsewhere")


def test_a_program_that_fails_leaves_no_result(bundle):
    here = context(bundle)
    step = Once("table", "bench", ("table", "a", "b"))
    assert step.left(here) == ["bench"]
    step.run(here)
    assert (here.place.results / "table.txt").read_text() == "a table of 2\n"
    assert step.left(here) == []
    wrong = Once("wrong", "bench", ("kernels",))
    wrong.run(here)
    assert wrong.left(here) == ["bench"]


def test_every_result_is_copied_and_a_second_call_has_nothing_to_do(bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "__file__", str(bundle / "run.py"))
    monkeypatch.setattr("machine._torch", lambda: None)
    context(bundle)
    arguments = ["--out", str(tmp_path / "out"), "--only", "gpt", "--seconds", "60"]
    assert run.main(arguments) == 0
    assert (tmp_path / "out" / "table.md").read_text() == "a table of 1\n"
    assert len((tmp_path / "out" / "gpt.burn-amp.jsonl").read_text().splitlines()) == 7
    capsys.readouterr()
    assert run.main(arguments) == 0
    assert "gpt" not in capsys.readouterr().out
