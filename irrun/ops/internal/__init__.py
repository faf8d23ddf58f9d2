"""Internal operations, outside of the numbered opsets, which OpenVINO's transformations write into files."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
