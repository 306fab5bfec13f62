"""What autograd saves, CUDA's rules, gradient errors, and the blocks: `pytest`."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from blocks import BLOCKS
from cuda_rules import CudaRules, FusedRmsNorm
from gradients import NEGLIGIBLE, Relative, gradients, in_f64, over_draws, relative
from saved import saved_bytes

safetensors = pytest.importorskip("safetensors.torch")
import footprint  # noqa: E402  it needs safetensors too

SUBJECTS = footprint.subjects()
BF16 = torch.bfloat16


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def saved_of(model: nn.Module, x: torch.Tensor, dtype: torch.dtype | None):
    others = [*model.buffers(), x]
    return saved_bytes(lambda: model(x), model.parameters(), others, footprint.context(dtype))


def test_the_input_and_the_parameters_do_not_count_but_their_low_copies_are_told_apart():
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU())
    x = torch.randn(4, 16, requires_grad=True)
    assert saved_of(model, x, None) == (4 * 8 * 4, 0)  # the output of the ReLU
    low_weight = 16 * 8 * 2
    assert saved_of(model, x, BF16) == ((4 * 16 + 4 * 8) * 2, low_weight)  # and the low copy of x


def test_a_storage_that_is_saved_twice_counts_once():
    class Twice(nn.Module):
        def forward(self, x):
            h = x * 1.5
            return (h * h.transpose(0, 1)).sum()

    x = torch.randn(8, 8, requires_grad=True)
    assert saved_of(Twice(), x, None).kept == 8 * 8 * 4 + 4  # h, and the sum


def test_the_output_counts_although_autograd_saves_only_what_the_backward_pass_needs():
    model = nn.Linear(16, 8)
    assert saved_of(model, torch.randn(4, 16), None).kept == 4 * 8 * 4


def test_under_autocast_norms_softmax_and_sums_are_f32_as_on_cuda():
    x = torch.randn(4, 8, dtype=BF16)
    with footprint.context(BF16):
        outputs = [
            F.layer_norm(x, [8]), F.group_norm(x, 2), F.softmax(x, -1), x.softmax(-1),
            F.log_softmax(x, -1), F.softplus(x), x.sum(), x.exp(), F.relu(x), F.silu(x), x.mean(),
        ]
    assert [output.dtype for output in outputs] == [torch.float32] * 8 + [BF16] * 3


def test_without_autocast_no_dtype_changes():
    with CudaRules():
        assert F.softmax(torch.randn(4, 8, dtype=BF16), -1).dtype == BF16


def test_the_fused_rms_norm_agrees_with_the_one_of_pytorch():
    x = torch.randn(3, 5, 8, dtype=torch.float64, generator=generator(), requires_grad=True)
    weight = torch.randn(8, dtype=torch.float64, generator=generator(), requires_grad=True)
    fused = FusedRmsNorm.apply(x, weight, 1e-5)
    torch.testing.assert_close(fused, F.rms_norm(x, [8], weight, 1e-5))
    assert torch.autograd.gradcheck(lambda *xs: FusedRmsNorm.apply(*xs, 1e-5), (x, weight))


def test_rms_norm_saves_its_input_and_a_number_per_row():
    x = torch.randn(4, 8, requires_grad=True)
    norm = nn.RMSNorm(8, eps=1e-5)
    assert saved_of(norm, x, None).kept == (4 * 8 + 4) * 4  # the output, and the numbers
    with CudaRules():
        y = norm(x)
    torch.testing.assert_close(y, norm(x))


def test_a_scale_is_halved_until_nothing_overflows_and_divided_out():
    model = nn.Linear(1, 1, bias=False).half()
    batch = {"x": torch.ones(1, 1, dtype=torch.float16)}

    def loss(model, batch):
        return 100 * model(batch["x"]).float().sum()

    found = gradients(model, batch, loss, scale=65536.0)
    assert found["weight"].item() == 100
    with pytest.raises(OverflowError):
        gradients(model, batch, lambda *_: loss(*_) * torch.inf)


def test_errors_are_relative_and_leave_out_gradients_that_are_zero_but_for_rounding():
    exact = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([0.0, 4.0]), "c": torch.tensor([1e-9])}
    ours = {"a": torch.tensor([3.0, 0.3]), "b": torch.tensor([0.0, 4.4]), "c": torch.tensor([0.0])}
    found = relative(ours, exact)
    assert found.overall == pytest.approx(0.1)
    assert found.parameters == pytest.approx({"a": 0.1, "b": 0.1})
    found = over_draws([found, Relative(0.7, {"a": 0.7, "b": 0.0})])
    assert found == {"overall": pytest.approx(0.5), "largest": pytest.approx(0.5), "parameter": "a"}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_has_its_shape_and_the_same_gradients_in_f32_as_in_f64(name):
    subject = SUBJECTS[name]
    shape = subject.spec.tiny()
    assert tuple(subject.forward(subject.model(0), subject.batch(0)).shape) == shape.output
    exact = footprint.exact_gradients(subject, 0)
    assert ("input" in exact) == shape.input_requires_grad
    assert relative(footprint.low_gradients(subject, 0, "f32"), exact).overall < 1e-5


def test_f64_reaches_every_number_of_a_net_and_its_batch():
    subject = SUBJECTS["rope"]
    model = subject.model(0)
    batch = in_f64(model, subject.batch(0))
    assert {tensor.dtype for tensor in [*model.buffers(), *batch.values()]} == {torch.float64}
    assert batch["x"].is_leaf and batch["x"].requires_grad


def test_the_blocks_are_those_of_the_rust_program():
    folder = Path(__file__).parents[1] / "src/bin/footprint"
    table = (folder / "blocks/mod.rs").read_text().partition("\nblocks! {")[2]
    assert re.findall(r'^    "(.+?)" ', table, re.MULTILINE) == list(BLOCKS)
    threshold = re.search(r"NEGLIGIBLE: f64 = (.+);", (folder / "gradients.rs").read_text())
    assert float(threshold[1]) == NEGLIGIBLE


def test_footprint_writes_its_numbers_and_the_files_they_follow_from(tmp_path):
    footprint.main(f"--subject tabular wgan-generator rope --draws 2 --out {tmp_path}".split())
    result = json.loads((tmp_path / "footprint.json").read_text())
    assert result["draws"] == 2
    rows = {(row["subject"], row["precision"]): row for row in result["rows"]}
    assert len(rows) == 9
    for row in rows.values():
        assert 0 < row["tensor_bytes"] <= row["kept_bytes"]
        assert row["gradient_error"]["overall"] < 1
    low, full = rows["tabular", "bf16"], rows["tabular", "f32"]
    assert low["kept_bytes"] < full["kept_bytes"]
    assert full["weight_cast_bytes"] == 0 < low["weight_cast_bytes"]
    assert full["gradient_error"]["overall"] < 1e-5 < low["gradient_error"]["overall"]

    subject = SUBJECTS["tabular"]
    for draw in [0, 1]:
        path = tmp_path / str(draw) / "tabular-tiny.gradients.safetensors"
        found = safetensors.load_file(path)
        for name, gradient in footprint.exact_gradients(subject, draw).items():
            torch.testing.assert_close(found[name], gradient.float())
    found = safetensors.load_file(tmp_path / "0" / "rope-tiny.gradients.safetensors")
    assert set(found) == {"input"}
