"""The version in the format of OpenVINO GenAI."""

from __future__ import annotations

import irrun

__all__ = ["get_version"]


def get_version() -> str:
    """Return the version of OpenVINO GenAI whose API this package follows, in its format."""
    return f"2026.4.0.0-0-irrun{irrun.__version__}"
