"""ExperimentalDetectronTopKROIs: the regions of highest probability."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.checks import check_minimum
from irrun.ops._support.numerics import Array, compute_in_float32
from irrun.ops._support.registry import op

__all__ = ["experimental_detectron_topk_rois_6"]


@op("ExperimentalDetectronTopKROIs", since=6, kind="selection", shape="infer_top_regions")
@compute_in_float32
def experimental_detectron_topk_rois_6(input_rois: Array, rois_probs: Array, *, max_rois: int = 0) -> Array:
    """Select the regions of highest probability, in descending order.

    Args:
        input_rois: Floating-point, shape [regions, 4].
        rois_probs: The type of `input_rois`, shape [regions]. Regions of equal probability keep their order.
        max_rois: Number of rows of the result.

    Returns:
        Shape [max_rois, 4], the type of `input_rois`. Zeros follow if there are fewer regions.

    Raises:
        InputError: Shapes do not match.

    Spec:
        ExperimentalDetectronTopKROIs-6
    """
    if input_rois.ndim != 2 or input_rois.shape[1] != 4 or rois_probs.shape != input_rois.shape[:1]:
        raise InputError(
            f"input_rois has shape {list(input_rois.shape)} and rois_probs {list(rois_probs.shape)}, "
            "expected [regions, 4] and [regions]"
        )
    check_minimum("max_rois", max_rois, 0)
    check_allocation((max_rois, 4), input_rois.dtype)
    order = np.argsort(-rois_probs, kind="stable")[:max_rois]
    result = np.zeros((max_rois, 4), input_rois.dtype)
    result[: len(order)] = input_rois[order]
    return result
