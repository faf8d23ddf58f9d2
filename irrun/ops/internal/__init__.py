"""Operations outside the numbered opsets, as OpenVINO's own passes write them into files."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
