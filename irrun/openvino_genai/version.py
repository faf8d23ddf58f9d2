"""The version in the format of OpenVINO GenAI."""

from __future__ import annotations

from irrun.version import __version__

__all__ = ["get_version"]


def get_version() -> str:
    """Return the OpenVINO GenAI version that this package follows, in OpenVINO GenAI's format."""
    return f"2026.4.0.0-0-irrun{__version__}"
