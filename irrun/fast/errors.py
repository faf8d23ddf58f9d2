"""The exception for missing kernels."""

from __future__ import annotations

__all__ = ["REFUSALS", "NoKernelError"]


class NoKernelError(Exception):
    """There is no fast kernel for a case, and other kernels compute it. The text gives the reason."""


#: Exceptions of preparing a kernel: there is none, or the plain kernel refuses the shapes with a message when
#: it runs.
REFUSALS = (NoKernelError, ArithmeticError, ValueError)
