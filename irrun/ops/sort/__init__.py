"""Sort operations: TopK, SearchSorted, and the suppression of overlapping boxes."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
