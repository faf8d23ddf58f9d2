"""Detection operations: prior boxes, proposals, pooling of regions and decoding of detections."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
