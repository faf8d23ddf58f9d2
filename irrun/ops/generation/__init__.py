"""Operations that generate tensors: Range, Eye, RandomUniform, Multinomial."""

from irrun._lazy import lazy_submodules

__getattr__ = lazy_submodules(__name__)
