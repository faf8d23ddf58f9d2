"""Internal operations, outside of the numbered opsets, which OpenVINO's transformations write into files."""

from irrun._lazy import make_lazy_getattr

__getattr__ = make_lazy_getattr(__name__)
