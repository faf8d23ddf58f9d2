"""The exception for missing kernels."""

from __future__ import annotations

__all__ = ["REFUSALS", "NoKernelError"]


class NoKernelError(Exception):
    """No fast kernel supports a case, so another kernel computes it. The text gives the reason."""


#: Exceptions of preparing a kernel: there is none, or the plain kernel refuses the shapes with a message when
#: it runs.
REFUSALS = (NoKernelError, ArithmeticError, ValueError)
