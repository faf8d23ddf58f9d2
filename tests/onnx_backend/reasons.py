"""Why irrun does not give what some of ONNX's backend tests expect."""

from __future__ import annotations

import re

from onnx_backend.suite import Outcome

__all__ = ["DISAGREEMENTS", "RELEASE", "is_random", "reason"]

#: The release of ONNX whose tests `REASONS` covers.
RELEASE = "1.23"

#: The tests that pass on OpenVINO's CPU plugin and not on irrun.
DISAGREEMENTS = {
    "node/test_attention_4d_causal_fp16_expanded": (
        "irrun rounds each operation in f16 to f16; the CPU plugin computes a model in f16 in f32. Two values lie two "
        "units in the last place from what the test expects, just beyond its tolerance; the exact result lies between, "
        "nearer to irrun's"
    ),
    "node/test_div_int32_trunc": (
        "the converter leaves m_pythondiv true, which means rounding down; irrun does that, as does OpenVINO's "
        "reference implementation, while the CPU plugin always cuts off"
    ),
}

#: Pattern of names -> why those tests fail, on both sides.
REASONS = {
    r"test_attention_.*(fullymasked|nan_robustness|structural_empty|gqa_rank4_mask)\w*_expanded": (
        "the function finds rows that are masked altogether by ReduceMax being -inf, but OpenVINO defines the maximum "
        "of nothing but -inf as the lowest finite number, so Softmax gives NaN there"
    ),
    r"test_reduce_max_empty_set": "OpenVINO defines the maximum of nothing as the lowest finite number, not -inf",
    r"test_attention_.*window\w*": "the converter drops left_window_size and right_window_size",
    r"test_attention_4d_with_past_and_present_qk_matmul_bias_\dd_mask_causal": (
        "the converter lines the causal mask up with the last key instead of the end of past_key"
    ),
    r"test_bernoulli_.*": "random numbers",
    r"test_bitshift_.*": (
        "the converter writes a product with, or a quotient by, Power(2, shift), which overflows or becomes 0 where "
        "the shift is negative or as wide as the type"
    ),
    r"test_cast(like)?_FLOAT(16)?_to_FLOAT8(E4M3FN|E5M2)(_expanded)?": (
        "the converter drops saturate: Convert gives NaN or infinity for what is too large"
    ),
    r"test_cast(like)?_FLOAT(16)?_to_FLOAT4E2M1(_expanded)?": "OpenVINO converts NaN to 6, ONNX to -0",
    r"test_cast_e8m0_.*": "the converter drops round_mode: Convert rounds to the nearest, not up",
    r"test_dft_axis": "the converter ignores the input axis and transforms along axis 1",
    r"test_dft_i?rfft(_opset19)?": (
        "the converter leaves the last axis of real data in (rfft), or does not add it (irfft)"
    ),
    r"test_dynamicquantizelinear": "the converter multiplies by 255 / range instead of dividing by the rounded scale",
    r"test_(dynamicquantizelinear_expanded|quantizelinear_uint16)": (
        "the converter writes FakeQuantize, whose sums in f32 round quotients that lie half-way the other way"
    ),
    r"test_(gru|lstm|simple_rnn)_batchwise": "the converter ignores layout=1 and takes the batch for time",
    r"test_lstm_with_peepholes": "the converter drops P: LSTMSequence has no peepholes",
    r"test_maxpool_2d_ceil_output_size_reduce_by_one": (
        'the converter writes rounding_type="ceil", which keeps windows that begin behind the data'
    ),
    r"test_nonmaxsuppression_iou_threshold_boundary": (
        "a box that overlaps by exactly the threshold is dropped, as in the CPU plugin; ONNX keeps it"
    ),
    r"test_resize_.*_exclude_outside": "the converter drops exclude_outside",
    r"test_resize_.*_not_(larger|smaller)": "the converter drops keep_aspect_ratio_policy",
    r"test_resize_.*_antialias": 'antialias has no effect on the modes "cubic" and "linear_onnx" of Interpolate',
    r"test_resize_downsample_scales_(cubic|linear)_align_corners": (
        "Interpolate aligns the corners of the actual, whole-numbered size; ONNX takes scale * size"
    ),
    r"test_roialign_mode_max": (
        "ROIAlign takes the maximum of interpolated samples; ONNX takes that of the four weighted pixels"
    ),
    r"test_spacetodepth_crd_mode_example": "the converter drops the mode CRD",
}


def is_random(outcome: Outcome) -> bool:
    """Whether the result is random, so that passing would be luck; such tests count as failed everywhere."""
    return any(o.startswith(("RandomUniform-", "Multinomial-")) for o in outcome.operations)


def reason(name: str) -> str:
    """Why irrun fails the test kind/name; "" where nobody has found out."""
    if name in DISAGREEMENTS:
        return DISAGREEMENTS[name]
    short = name.rpartition("/")[2]
    return next((why for pattern, why in REASONS.items() if re.fullmatch(pattern, short)), "")
