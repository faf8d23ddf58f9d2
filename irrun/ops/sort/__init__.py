"""Sorting operations: TopK, SearchSorted and non-maximum suppression."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
