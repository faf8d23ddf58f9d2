"""Exceptions of OpenVINO's Python package."""

from __future__ import annotations

__all__ = ["OVError", "OVTypeError", "UserInputError"]


class OVError(Exception):
    """Base class of the exceptions of this module."""


class UserInputError(OVError):
    """A caller passed an invalid value."""


class OVTypeError(OVError, TypeError):
    """A caller passed a value of a wrong type."""
