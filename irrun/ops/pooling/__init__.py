"""Pooling operations."""

from irrun._lazy import make_lazy_getattr

__getattr__ = make_lazy_getattr(__name__)
