"""The exceptions for missing kernels."""

from __future__ import annotations

__all__ = ["REFUSALS", "ChangingShapesError", "NoKernelError"]


class NoKernelError(Exception):
    """No fast kernel supports a case, so another kernel computes it. The text gives the reason."""


class ChangingShapesError(NoKernelError):
    """The shapes change in every run, so that preparing a kernel for them would not pay off.

    Args:
        is_lasting: Whether they did so in many runs.
    """

    def __init__(self, is_lasting: bool) -> None:
        super().__init__("expected shapes that do not change in every run")
        self.is_lasting = is_lasting


#: Exceptions of preparing a kernel: there is none, or the plain kernel refuses the shapes with a message when
#: it runs.
REFUSALS = (NoKernelError, ArithmeticError, ValueError)
