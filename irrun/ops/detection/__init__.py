"""Detection operations: prior boxes, proposals, pooling of regions and decoding of detections."""

from irrun._lazy import make_lazy_getattr

__getattr__ = make_lazy_getattr(__name__)
