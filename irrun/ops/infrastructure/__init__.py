"""Infrastructure operations. The specification lists If under the condition operations.

The inputs, outputs and constants of a model are in `structure`, loops in `loops`, and variables in `variables`.
"""

from irrun._lazy import make_lazy_getattr

__getattr__ = make_lazy_getattr(__name__)
