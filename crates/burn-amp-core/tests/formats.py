"""Writes data/formats.txt: the codes of all F16 and BF16 numbers in formats of eight bits and fewer, and the numbers of all codes,
as gfloat and ml_dtypes have them. It ends if the two differ.

    pip install gfloat==0.5.2 ml_dtypes==0.6.0 && python3 crates/burn-amp-core/tests/formats.py
"""

import itertools
import pathlib

import gfloat
import ml_dtypes
import numpy
from gfloat import formats

FORMATS = {
    "e4m3": (formats.format_info_ocp_e4m3, ml_dtypes.float8_e4m3fn),
    "e5m2": (formats.format_info_ocp_e5m2, ml_dtypes.float8_e5m2),
    "e2m1": (formats.format_info_ocp_e2m1, ml_dtypes.float4_e2m1fn),
}
INPUTS = {"f16": numpy.float16, "bf16": ml_dtypes.bfloat16}


def codes(name, values, saturates):
    """The codes of values; those of ml_dtypes where it has the behaviour, which does not saturate."""
    info, dtype = FORMATS[name]
    rounded = gfloat.round_ndarray(info, values, sat=saturates)
    by_gfloat = gfloat.encode_ndarray(info, rounded).astype(numpy.uint8)
    if not saturates or name == "e2m1":
        by_ml_dtypes = values.astype(dtype).view(numpy.uint8)
        # gfloat has one NaN, without a sign.
        are_nan = numpy.isnan(rounded) & numpy.isnan(by_ml_dtypes.view(dtype).astype(numpy.float64))
        assert ((by_gfloat == by_ml_dtypes) | are_nan).all(), name
        return by_ml_dtypes
    return by_gfloat


def runs(words):
    return " ".join(f"{len(list(same))}:{word}" for word, same in itertools.groupby(words))


def main():
    bits = numpy.arange(1 << 16, dtype=numpy.uint16)
    lines = ["# Runs of `count:code` over the bits of F16 and BF16, `-` for NaN, and the number of each code.",
             "# Written by formats.py. Facts of three public formats, under the licence of this project."]
    for name, (info, dtype) in FORMATS.items():
        for source, kind in INPUTS.items():
            values = bits.view(kind).astype(numpy.float64)
            is_nan = numpy.isnan(values)
            for saturates in [True] if name == "e2m1" else [False, True]:
                found = codes(name, values[~is_nan], saturates)
                words = numpy.full(1 << 16, "-", dtype=object)
                words[~is_nan] = [f"{code:02x}" for code in found]
                lines += [f"{name} {source} {'saturates' if saturates else 'beyond'}", runs(words)]
        all_codes = numpy.arange(1 << info.k, dtype=numpy.uint8)
        by_ml_dtypes = all_codes.view(dtype).astype(numpy.float64)
        by_gfloat = numpy.array([gfloat.decode_float(info, int(code)).fval for code in all_codes])
        assert numpy.array_equal(by_gfloat, by_ml_dtypes, equal_nan=True), name
        lines += [f"{name} numbers", " ".join(f"1:{number}" for number in by_gfloat)]
    file = pathlib.Path(__file__).parent / "data" / "formats.txt"
    file.write_text("\n".join(lines) + "\n")


main()
