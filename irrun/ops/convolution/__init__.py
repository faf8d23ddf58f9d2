"""Convolution operations."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
