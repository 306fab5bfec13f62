"""The counts of `traffic.py` against counts by hand: `pytest`."""

import pytest

import traffic


def test_a_step_of_the_small_mlp_moves_what_a_count_by_hand_says():
    """Three linear layers 784, 32, 24, 10 on 8 items, in F32, whose bytes are 4 times these numbers."""
    rows, widths, parameters = 8, (32, 24, 10), 26_162
    relus = 2 * rows * (32 + 24)
    relus_backward = 3 * rows * (32 + 24)
    biases = sum(rows * width + width for width in widths)
    logits = rows * widths[-1]
    softmax = 2 * logits + 3 * logits  # forward; backward: two operands, a result
    adam = 7 * parameters
    counted = traffic.count("mlp", "tf32", sdpa=False, size="tiny")
    rest = counted["bytes_besides_products"] / 4 - (relus + relus_backward + biases + softmax + adam)
    # Of the loss: its logarithms, classes and weight, a number and its gradient, and the gradient's logits.
    assert 0 < rest < 4 * logits
    # 3 and 5 products, 4 kernels of ReLUs, 3 of biases, 4 of the loss, 1 of Adam; beside them those of numbers.
    assert 20 <= counted["launches"] <= 25


def test_autocast_halves_the_activations_and_adds_casts():
    bytes_of = lambda precision: traffic.count("unet:batch_size=32", precision, sdpa=False, size="tiny")
    exact, low = bytes_of("tf32"), bytes_of("amp-bf16")
    assert low["launches"] > exact["launches"]
    assert low["bytes_besides_products"] < 0.75 * exact["bytes_besides_products"]


@pytest.mark.parametrize("precision", traffic.PRECISIONS)
def test_fused_attention_moves_less_in_fewer_launches(precision):
    apart, fused = (traffic.count("bert", precision, sdpa, size="tiny") for sdpa in (False, True))
    assert fused["launches"] < apart["launches"]
    assert fused["bytes_besides_products"] < apart["bytes_besides_products"]
