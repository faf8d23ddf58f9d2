"""The exceptions for missing kernels."""

from __future__ import annotations

__all__ = ["REFUSALS", "NoKernelError", "NoPlanError"]


class NoKernelError(Exception):
    """No fast kernel supports a case, so another kernel computes it. The text gives the reason."""


class NoPlanError(NoKernelError):
    """Joined kernels cannot run together for some shapes, so they run one by one.

    Args:
        reason: The reason.
        is_lasting: Whether this happened in many runs.
    """

    def __init__(self, reason: str, is_lasting: bool) -> None:
        super().__init__(reason)
        self.is_lasting = is_lasting


#: Exceptions of preparing a kernel: there is none, or the plain kernel refuses the shapes with a message when
#: it runs.
REFUSALS = (NoKernelError, ArithmeticError, ValueError)
