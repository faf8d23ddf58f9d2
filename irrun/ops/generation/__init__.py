"""Operations that generate tensors: Range, Eye, RandomUniform, Multinomial."""

from irrun._lazy import make_lazy_getattr

__getattr__ = make_lazy_getattr(__name__)
