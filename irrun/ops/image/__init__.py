"""Operations on images: Interpolate, GridSample, conversion of colours."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
