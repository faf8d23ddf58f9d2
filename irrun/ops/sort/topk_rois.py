"""ExperimentalDetectronTopKROIs: the regions with the highest probabilities."""

from __future__ import annotations

import numpy as np

from irrun.errors import InputError
from irrun.limits import check_allocation
from irrun.ops._support.numerics import Array, upcast
from irrun.ops._support.registry import op

__all__ = ["experimental_detectron_topk_rois_6"]


@op("ExperimentalDetectronTopKROIs", since=6)
def experimental_detectron_topk_rois_6(input_rois: Array, rois_probs: Array, *, max_rois: int = 0) -> Array:
    """The `max_rois` regions of highest probability, best first, equal ones in their order.

    input_rois: float [regions, 4]; rois_probs: the same type, [regions].
    Returns the type of input_rois, [max_rois, 4], zeros at the end where there are fewer regions.
    Raises InputError where shapes do not fit.
    Spec: ExperimentalDetectronTopKROIs-6.
    """
    if input_rois.ndim != 2 or input_rois.shape[1] != 4 or rois_probs.shape != input_rois.shape[:1]:
        raise InputError(
            f"input_rois have shape {list(input_rois.shape)} and rois_probs {list(rois_probs.shape)}, "
            "expected [regions, 4] and [regions]"
        )
    check_allocation((max_rois, 4), input_rois.dtype)
    order = np.argsort(-upcast(rois_probs), kind="stable")[:max_rois]
    result = np.zeros((max_rois, 4), input_rois.dtype)
    result[: len(order)] = input_rois[order]
    return result
