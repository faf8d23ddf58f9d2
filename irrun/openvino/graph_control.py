"""Nodes that contain models."""

from __future__ import annotations

__all__ = ["CLASSES"]

CLASSES: tuple[str, ...] = ()
