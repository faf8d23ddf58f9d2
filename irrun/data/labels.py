"""Labels of inputs: the number of the correct class of each input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from irrun.errors import InputError

__all__ = ["read_labels"]

Array = np.ndarray[Any, Any]

_NUMBER = re.compile(r"[0-9]{1,9}")


def read_labels(path: Path, names: Sequence[str]) -> list[Array]:
    """Read the label of each run from a .npy file, or from a text file with a label, or a file and its label, per line.

    Args:
        path: The file.
        names: The file names of the inputs, one per run.

    Raises:
        InputError: The file cannot be read, or it does not have a label for each run.
    """
    try:
        labels = list(np.load(path, allow_pickle=False)) if path.suffix.lower() == ".npy" else _read_text(path, names)
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise InputError(f"cannot read {path}: {error}") from None
    if len(labels) != len(names):
        raise InputError(f"{path} has {len(labels)} labels, expected one for each of {len(names)} runs")
    return [np.asarray(label) for label in labels]


def _read_text(path: Path, names: Sequence[str]) -> list[Any]:
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    rows = [re.split(r"\s*[,;\t]\s*", line) for line in lines]
    if rows and not _NUMBER.fullmatch(rows[0][-1]):
        rows = rows[1:]  # titles
    if any(len(row) > 2 or not _NUMBER.fullmatch(row[-1]) for row in rows):
        raise InputError(f"{path} has lines other than LABEL or FILE,LABEL")
    labels = [int(row[-1]) for row in rows]
    if not rows or any(len(row) == 1 for row in rows):
        return labels
    known = {Path(row[0]).name: label for row, label in zip(rows, labels, strict=True)}
    stems = {Path(name).stem: label for name, label in known.items()}
    found = [known.get(Path(name).name, stems.get(Path(name).stem)) for name in names]
    if None in found:
        raise InputError(f"{path} has no label of {names[found.index(None)]}")
    return found
