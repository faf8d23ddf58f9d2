"""Versions in the format of OpenVINO."""

from __future__ import annotations

from irrun.version import __version__

__all__ = ["VERSION", "Version", "get_version"]

#: The OpenVINO version that this package follows, in OpenVINO's format.
VERSION = f"2026.4.0-0-irrun{__version__}"


class Version:
    """The version of a device.

    Args:
        build_number: The version.
        description: The name of the plugin.
    """

    def __init__(self, build_number: str, description: str) -> None:
        self.build_number = build_number
        self.description = description

    def __repr__(self) -> str:
        return f"<Version: {self.build_number} {self.description}>"

    @property
    def major(self) -> int:
        """The year."""
        return int(self.build_number.split(".")[0])

    @property
    def minor(self) -> int:
        """The release of the year."""
        return int(self.build_number.split(".")[1])

    @property
    def patch(self) -> int:
        """The patch release."""
        return int(self.build_number.split(".")[2].split("-")[0])


def get_version() -> str:
    """Return the version in the format of OpenVINO."""
    return VERSION
