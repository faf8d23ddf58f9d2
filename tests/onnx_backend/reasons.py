"""Reasons why some of ONNX's backend tests fail on irrun."""

from __future__ import annotations

import re

from onnx_backend.suite import Outcome

__all__ = ["DISAGREEMENTS", "RELEASE", "find_reason", "is_random"]

#: The release of ONNX whose tests `REASONS` covers.
RELEASE = "1.23"

#: Tests that pass on OpenVINO's CPU plugin but not on irrun -> the reason.
DISAGREEMENTS = {
    "node/test_attention_4d_causal_fp16_expanded": (
        "irrun rounds the result of each operation to f16, while the CPU plugin computes f16 models in f32. Two values "
        "differ from the expected ones by two units in the last place, slightly above the tolerance of the test; the "
        "exact result is between the two, closer to irrun's"
    ),
    "node/test_div_int32_trunc": (
        "the converter leaves m_pythondiv at true, which rounds the quotient down; irrun and OpenVINO's reference "
        "implementation do that, while the CPU plugin always rounds toward zero"
    ),
}

#: Pattern of test names -> the reason why these tests fail, on irrun and on the CPU plugin.
REASONS = {
    r"test_attention_.*(fullymasked|nan_robustness|structural_empty|gqa_rank4_mask)\w*_expanded": (
        "the function detects fully masked rows by a ReduceMax of -inf, but OpenVINO's ReduceMax of a row of -inf is "
        "the lowest finite number, so Softmax returns NaN for these rows"
    ),
    r"test_reduce_max_empty_set": "OpenVINO's maximum of an empty set is the lowest finite number instead of -inf",
    r"test_attention_.*window\w*": "the converter drops left_window_size and right_window_size",
    r"test_attention_4d_with_past_and_present_qk_matmul_bias_\dd_mask_causal": (
        "the converter aligns the causal mask with the last key instead of the end of past_key"
    ),
    r"test_bernoulli_.*": "random numbers",
    r"test_bitshift_.*": (
        "the converter replaces the shift by a multiplication with or a division by Power(2, shift), which overflows "
        "or becomes 0 if the shift is negative or not smaller than the width of the type"
    ),
    r"test_cast(like)?_FLOAT(16)?_to_FLOAT8(E4M3FN|E5M2)(_expanded)?": (
        "the converter drops saturate: Convert returns NaN or infinity for values that are too large"
    ),
    r"test_cast(like)?_FLOAT(16)?_to_FLOAT4E2M1(_expanded)?": "OpenVINO converts NaN to 6, ONNX to -0",
    r"test_cast_e8m0_.*": "the converter drops round_mode: Convert rounds to nearest instead of up",
    r"test_dft_axis": "the converter ignores the input axis and transforms along axis 1",
    r"test_dft_i?rfft(_opset19)?": ("the converter keeps the last axis of real data (rfft) or does not add it (irfft)"),
    r"test_dynamicquantizelinear": "the converter multiplies by 255 / range instead of dividing by the rounded scale",
    r"test_(dynamicquantizelinear_expanded|quantizelinear_uint16)": (
        "the converter writes FakeQuantize, whose f32 arithmetic rounds quotients at ties in the other direction"
    ),
    r"test_(gru|lstm|simple_rnn)_batchwise": "the converter ignores layout=1 and treats the batch axis as time",
    r"test_lstm_with_peepholes": "the converter drops P: LSTMSequence does not support peepholes",
    r"test_maxpool_2d_ceil_output_size_reduce_by_one": (
        'the converter writes rounding_type="ceil", which keeps windows that start after the end of the data'
    ),
    r"test_nonmaxsuppression_iou_threshold_boundary": (
        "a box whose overlap equals the threshold is suppressed, as in the CPU plugin; ONNX keeps it"
    ),
    r"test_resize_.*_exclude_outside": "the converter drops exclude_outside",
    r"test_resize_.*_not_(larger|smaller)": "the converter drops keep_aspect_ratio_policy",
    r"test_resize_.*_antialias": 'antialias has no effect on the modes "cubic" and "linear_onnx" of Interpolate',
    r"test_resize_downsample_scales_(cubic|linear)_align_corners": (
        "Interpolate aligns the corners of the actual integer size, ONNX the corners of scale * size"
    ),
    r"test_roialign_mode_max": (
        "ROIAlign returns the maximum of the interpolated samples, ONNX the maximum of the four weighted pixels"
    ),
    r"test_spacetodepth_crd_mode_example": "the converter drops the mode CRD",
}


def is_random(outcome: Outcome) -> bool:
    """Return whether the outputs are random. Such tests count as failures on both sides."""
    return any(o.startswith(("RandomUniform-", "Multinomial-")) for o in outcome.operations)


def find_reason(name: str) -> str:
    """Return why the test kind/name fails on irrun, or "" if the reason is unknown."""
    if name in DISAGREEMENTS:
        return DISAGREEMENTS[name]
    short_name = name.rpartition("/")[2]
    return next((reason for pattern, reason in REASONS.items() if re.fullmatch(pattern, short_name)), "")
