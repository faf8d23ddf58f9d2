"""Rewrites of a Program, one idea per file, each of them optional."""

from __future__ import annotations

from irrun.runtime.passes.constant_folding import fold_constants

__all__ = ["fold_constants"]
