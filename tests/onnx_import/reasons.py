"""Reasons why some of ONNX's backend tests fail when irrun itself imports the model."""

from __future__ import annotations

import re

__all__ = ["RELEASE", "find_reason"]

#: The release of ONNX whose tests `REASONS` covers.
RELEASE = "1.23"

SEQUENCES = "OpenVINO's models have neither sequences nor optional values as inputs, outputs or states"
NO_OPERATION = "OpenVINO has no operation for it"
NOT_CONSTANT = "an input that must be constant is an input of the model"

#: Pattern of test names -> the reason why these tests fail.
REASONS = {
    # Types
    r"test_(cast|castlike)_.*FNUZ\w*|test_castlike_.*FNUZ.*": "OpenVINO does not have the type float8 FNUZ",
    r"test_\w*(?<!U)INT2\w*|test_(de)?quantizelinear_int2": "OpenVINO does not have the type int2",
    # Sequences
    r"test_(identity|if|loop13|loop16)_(sequence|seq|opt|seq_none)": SEQUENCES,
    r"test_(sequence_insert|sequence_map|split_to_sequence|identity_opt)\w*": SEQUENCES,
    r"test_optional_get_element_(?!tensor)\w*|test_optional_has_element_(?!empty_no_input)\w*": SEQUENCES,
    r"test_sequence_model8": SEQUENCES,
    # Operators
    r"test_(adagrad|adam|momentum|nesterov_momentum|gradient)\w*": "operators of training are not supported",
    r"test_ai_onnx_ml_(label_encoder|tree_ensemble)_\w*": "OpenVINO has no operation for it",
    r"test_col2im_5d": "Col2Im has two spatial axes only",
    r"test_(bitcast|det|image_decoder|regex_full_match|tfidfvectorizer)_\w*": NO_OPERATION,
    r"test_string(_concat|_split|normalizer|split)\w*": NO_OPERATION,
    r"test_strnormalizer\w*|test_strnorm_\w*": NO_OPERATION,
    r"test_gridsample_volumetric_\w*": "GridSample has two spatial axes only",
    r"test_scan_sum": "Scan of version 8 has an axis of batches and lengths",
    r"test_lstm_with_peepholes": "lengths of an LSTM with peepholes are not constant",
    # Inputs
    r"test_(cumprod|melweightmatrix|training_dropout)(_\w*)?": NOT_CONSTANT,
    # Values
    r"test_bernoulli\w*": "random numbers",
    r"test_attention_.*(fullymasked|nan_robustness|structural_empty|gqa_rank4_mask)\w*_expanded": (
        "OpenVINO's ReduceMax of a row of -inf is the lowest finite number, so Softmax of a masked row is NaN"
    ),
    r"test_reduce_max_empty_set": "OpenVINO's maximum of an empty set is the lowest finite number instead of -inf",
    r"test_attention_4d_causal_fp16(_expanded)?": "the result of each operation is rounded to f16, near the tolerance",
    r"test_cast(like)?_FLOAT(16)?_to_FLOAT4E2M1(_expanded)?": "OpenVINO converts NaN to 6, ONNX to -0",
    r"test_cast_e8m0_FLOAT(16)?_to_FLOAT8E8M0": "Convert rounds to nearest, ONNX up",
    r"test_mod_float_edge_cases_fmod_0_float\d+": "FloorMod of an infinite divisor is NaN",
    r"test_nonmaxsuppression_iou_threshold_boundary": (
        "a box whose overlap equals the threshold is suppressed, as in OpenVINO; ONNX keeps it"
    ),
    r"test_roialign_mode_max": (
        "ROIAlign returns the maximum of the interpolated samples, ONNX the maximum of the four weighted pixels"
    ),
}


def find_reason(name: str) -> str:
    """Return why the test kind/name fails, or "" if it passes."""
    short_name = name.rpartition("/")[2]
    return next((reason for pattern, reason in REASONS.items() if re.fullmatch(pattern, short_name)), "")
