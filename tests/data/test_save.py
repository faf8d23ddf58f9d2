"""Writing of single arrays."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from irrun.data.save import write_npy


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is always full")
def test_full_disk_is_reported() -> None:
    with open("/dev/full", "wb", buffering=0) as file, pytest.raises(OSError, match="No space left on device"):
        write_npy(file, np.zeros(100_000))


def test_files_are_those_of_numpy() -> None:
    value = np.arange(12, dtype=">f4").reshape(3, 4).T
    files = io.BytesIO(), io.BytesIO()
    write_npy(files[0], value)
    np.save(files[1], value)
    assert files[0].getvalue() == files[1].getvalue()
