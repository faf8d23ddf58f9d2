"""The kernels of all operations, by category of the specification.

Submodules are imported when they are first used: `irrun.ops.movement.gather.gather_7(...)` works after
`import irrun`.
"""

from irrun._lazy import make_lazy_getattr

__getattr__ = make_lazy_getattr(__name__)
