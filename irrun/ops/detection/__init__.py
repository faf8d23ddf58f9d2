"""Detection operations: priors, proposals, pooling of regions, decoding of detections."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
