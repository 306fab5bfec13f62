"""The twins against known counts, another implementation, and their own promises: `pytest`."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import measure
from models import attention, bert, gpt
from models.spec import count_parameters
from models.zoo import ZOO
from precision import PRECISIONS
from training import Training, make_batch

CPU = torch.device("cpu")
FIELDS = (
    "framework version device backend model size params batch_size shape precision steps warmup "
    "step_ms_median step_ms_p10 step_ms_p90 items_per_s peak_memory_bytes loss_first loss_last "
    "skipped_steps loss_scale error"
).split()
NEEDS_CPU_SCALER = pytest.mark.skipif(
    not hasattr(torch.amp, "GradScaler"), reason="GradScaler on the CPU needs PyTorch 2.3"
)


def transformer_layer(width: int, inner: int) -> int:
    attention_part = 4 * (width * width + width)
    feed_forward_part = 2 * width * inner + inner + width
    return attention_part + feed_forward_part + 2 * 2 * width


PARAMETERS = {
    "mlp": 116_058,
    "mlp-medium": 2_515_850,
    "mlp-large": 159_422_464,
    "tabular": 16 * 16_860 + (144 * 512 + 512) + (512 * 256 + 256) + (256 + 1),
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "unet": 7_763_041,
    "bert": (30_522 + 512 + 2 + 2) * 768 + 12 * transformer_layer(768, 3072) + 769 * 30_522,
    "gpt": (50_257 + 1024 + 2) * 768 + 12 * transformer_layer(768, 3072) + 768 * 50_257,
    "lstm": 4 * 512 * (128 + 512 + 2) + 513 * 10,
    "bilstm": 8 * 512 * (128 + 512 + 2) + 1025 * 10,
    "gru": 3 * 512 * (128 + 512 + 2) + 513 * 10,
    "rnn": 512 * (128 + 512 + 2) + 513 * 10,
    "wgan": 3_806_083 + 2_764_737,
    "mobilenet": 3_504_872,
    "convnext": 28_589_128,
    "yolox": 912_159,
    "diffusion": 27_008_259,
}

OUTPUT_SHAPES = {
    "mlp": (3, 10),
    "mlp-medium": (3, 10),
    "mlp-large": (3, 32),
    "tabular": (3,),
    "resnet18": (3, 10),
    "resnet50": (3, 10),
    "unet": (3, 1, 32, 32),
    "bert": (3, 16, 64),
    "gpt": (3, 16, 64),
    "lstm": (3, 10),
    "bilstm": (3, 10),
    "gru": (3, 10),
    "rnn": (3, 10),
    "wgan": (3, 3, 16, 16),
    "mobilenet": (3, 10),
    "convnext": (3, 10),
    "yolox": (3, 8, 64 + 16 + 4),
    "diffusion": (3, 3, 8, 8),
}


def tiny_training(name: str, precision: str = "f32"):
    spec = ZOO[name]
    config = spec.tiny()
    batch = make_batch(spec, config, spec.batch_size_tiny, CPU)
    return Training(spec, config, PRECISIONS[precision], CPU), batch


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ZOO)
def test_the_full_model_has_the_published_parameters(name):
    spec = ZOO[name]
    assert count_parameters(spec.build(spec.full())) == PARAMETERS[name]


@pytest.mark.parametrize("name", ZOO)
def test_the_output_has_its_shape(name):
    spec = ZOO[name]
    config = spec.tiny()
    output = spec.output(spec.build(config), make_batch(spec, config, 3, CPU))
    assert tuple(output.shape) == OUTPUT_SHAPES[name]


@pytest.mark.parametrize("precision", ["f32", "amp-bf16"])
@pytest.mark.parametrize("name", ZOO)
def test_the_loss_falls(name, precision):
    training, batch = tiny_training(name, precision)
    losses = [training.step(batch).item() for _ in range(20)]
    assert losses[-1] < losses[10] < losses[0]
    assert training.skipped_steps == 0


@pytest.mark.parametrize("causal", [False, True], ids=["bert", "gpt"])
def test_a_layer_agrees_with_the_one_of_pytorch(causal):
    config = gpt.GptConfig.tiny() if causal else bert.BertConfig.tiny()
    ours = gpt.Block(config) if causal else bert.Layer(config)
    theirs = nn.TransformerEncoderLayer(
        config.width, config.heads, config.inner_width, dropout=0.0, activation="gelu",
        layer_norm_eps=ours.norm1.eps, batch_first=True, norm_first=causal,
    )
    projections = (ours.attention.query, ours.attention.key, ours.attention.value)
    theirs.self_attn.in_proj_weight.data = torch.cat([p.weight for p in projections])
    theirs.self_attn.in_proj_bias.data = torch.cat([p.bias for p in projections])
    theirs.self_attn.out_proj = ours.attention.output
    theirs.linear1, theirs.linear2 = ours.feed_forward.inner, ours.feed_forward.outer

    x = torch.randn(3, 16, config.width, generator=torch.Generator().manual_seed(1))
    hidden = attention.future(16) if causal else None
    expected = theirs(x, src_mask=hidden)
    torch.testing.assert_close(ours(x, hidden) if causal else ours(x), expected)


@pytest.mark.skipif(not hasattr(F, "scaled_dot_product_attention"), reason="needs PyTorch 2.0")
@pytest.mark.parametrize("hidden", [None, attention.future(16)], ids=["bert", "gpt"])
def test_fused_attention_agrees_with_the_explicit_one(hidden):
    ours = attention.SelfAttention(width=32, heads=4, sdpa=False)
    x = torch.randn(3, 16, 32, generator=torch.Generator().manual_seed(1))
    expected = ours(x, hidden)
    ours.sdpa = True
    torch.testing.assert_close(ours(x, hidden), expected)


def test_gpt_does_not_see_the_future():
    training, batch = tiny_training("gpt")
    before = training.model(batch["tokens"])
    batch["tokens"][:, 10] = (batch["tokens"][:, 10] + 1) % 64
    after = training.model(batch["tokens"])
    torch.testing.assert_close(after[:, :10], before[:, :10], rtol=0, atol=0)
    assert not torch.equal(after[:, 10:], before[:, 10:])


def test_the_critic_stays_clipped_and_both_parts_of_the_wgan_move():
    training, batch = tiny_training("wgan")
    start = {name: p.detach().clone() for name, p in training.model.named_parameters()}
    training.step(batch)
    assert all(p.abs().max() <= 0.01 for p in training.model.critic.parameters())
    assert all(not torch.equal(p, start[name]) for name, p in training.model.named_parameters())


@NEEDS_CPU_SCALER
@pytest.mark.parametrize("name", ["mlp", "wgan"])
@pytest.mark.parametrize(
    "precision, scales", [("amp-f16", [32768, 16384]), ("amp-f16-static-128", [128, 128])]
)
def test_an_overflow_is_a_skipped_step_and_moves_only_a_dynamic_scale(name, precision, scales):
    training, batch = tiny_training(name, precision)
    next(iter(batch.values()))[0] = torch.inf
    seen = [(training.step(batch), training.loss_scale)[1] for _ in scales]
    assert seen == scales
    assert training.skipped_steps == len(scales)


def test_measure_writes_every_field_of_every_run(tmp_path):
    out = tmp_path / "results.jsonl"
    models = ["mlp", "gpt:seq_len=8,batch_size=2"]
    options = "--size tiny --device cpu --steps 4 --warmup 1".split()
    measure.main(["--models", *models, *options, "--precision", *PRECISIONS, "--out", str(out)])
    entries = lines(out)
    assert [entry["precision"] for entry in entries] == [*PRECISIONS, *PRECISIONS]
    assert all(set(entry) == set(FIELDS) for entry in entries)
    assert "CUDA" in entries[1]["error"], "tf32 is not silently f32"
    good = [entry for entry in entries if entry["error"] is None]
    assert len(good) >= 4
    for entry in good:
        assert entry["steps"] == 4
        assert 0 < entry["step_ms_p10"] <= entry["step_ms_median"] <= entry["step_ms_p90"]
        items_per_s = entry["batch_size"] / entry["step_ms_median"] * 1e3
        assert entry["items_per_s"] == pytest.approx(items_per_s)
        assert entry["peak_memory_bytes"] is None, "PyTorch does not report it on the CPU"
    assert good[0]["shape"] == [8, 784]
    assert good[-1]["shape"] == [2, 8]


def test_a_run_out_of_memory_is_an_entry_and_the_next_one_runs(tmp_path):
    out = tmp_path / "results.jsonl"
    options = f"--models mlp:batch_size={10**13} mlp --size tiny --device cpu --precision f32"
    measure.main([*options.split(), "--out", str(out)])
    failed, good = lines(out)
    assert "memory" in failed["error"]
    assert failed["step_ms_median"] is None
    assert good["error"] is None


def test_a_non_finite_loss_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(Training, "step", lambda self, batch: torch.tensor(torch.nan))
    out = tmp_path / "results.jsonl"
    options = "--models mlp --size tiny --device cpu --precision f32"
    measure.main([*options.split(), "--out", str(out)])
    [entry] = lines(out)
    assert entry["error"] == "non-finite loss in step 1"
    assert entry["loss_last"] is None


def test_what_the_budget_does_not_allow_is_left_out_by_name(tmp_path, capsys):
    out = tmp_path / "results.jsonl"
    options = "--models mlp unet --size tiny --device cpu --precision f32 --budget-seconds 0"
    measure.main([*options.split(), "--out", str(out)])
    assert not out.exists()
    assert "left out: mlp tiny x8 f32; unet tiny x2 f32" in capsys.readouterr().err


@pytest.mark.parametrize("name", ZOO)
def test_the_loss_follows_from_the_saved_weights_and_batch(name, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    import weights

    weights_path, example_path = weights.write(name, "tiny", None, tmp_path)
    example = safetensors.load_file(example_path)
    spec = ZOO[name]
    model = spec.build(spec.tiny()).train()
    model.load_state_dict(safetensors.load_file(weights_path))
    batch = {key[6:]: value for key, value in example.items() if key.startswith("batch.")}
    torch.testing.assert_close(spec.output(model, batch), example["output"])
    for goal in spec.objectives:
        key = "loss" if len(spec.objectives) == 1 else f"loss.{goal.name}"
        torch.testing.assert_close(goal.loss(model, batch).reshape(1), example[key])


def test_the_readme_names_every_field_precision_and_model_with_its_parameters():
    readme = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    for word in [*FIELDS, *PRECISIONS, *ZOO]:
        assert f"`{word}`" in readme, word
    for name, parameters in PARAMETERS.items():
        assert f"{parameters:,}" in readme, name
