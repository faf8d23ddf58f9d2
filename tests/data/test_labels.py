"""Labels of runs, in arrays and in texts."""

from __future__ import annotations

import numpy as np
import pytest

from irrun.data.labels import read_labels
from irrun.errors import InputError

NAMES = ["a/x.npy", "y.npy"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3\n4\n", [3, 4]),
        ("\n 3 \n\n4", [3, 4]),
        ("label\n3\n4", [3, 4]),
        ("y.npy,4\nx.npy,3", [3, 4]),
        ("file,label\nb/y.npy ; 4\nx.npy\t3\nz.npy,5", [3, 4]),
        ("y,4\nx.jpg,3", [3, 4]),
        ("x.npy,3\n4", [3, 4]),  # in order, if a line has no file
    ],
)
def test_texts(text, expected, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    labels = read_labels(path, NAMES)
    assert [int(label) for label in labels] == expected
    assert all(isinstance(label, np.ndarray) for label in labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"has 0 labels, expected one for each of 2 runs"),
        ("label\n", r"has 0 labels, expected one for each of 2 runs"),
        ("3\n4\n5", r"has 3 labels, expected one for each of 2 runs"),
        ("3\ncat", r"has lines other than LABEL or FILE,LABEL"),
        ("a,b,3\nc,d,4", r"has lines other than LABEL or FILE,LABEL"),
        ("3\n1234567890", r"has lines other than LABEL or FILE,LABEL"),
        ("x.npy,3\nz.npy,4", r"has no label of y\.npy"),
    ],
)
def test_mistakes_in_texts(text, message, tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_labels(path, NAMES)


def test_arrays(tmp_path):
    for name, values in (("labels.npy", [3, 4]), ("LABELS.NPY", [[0.5, 0.5], [0, 1]])):
        with open(tmp_path / name, "wb") as file:
            np.save(file, np.array(values))
        assert [label.tolist() for label in read_labels(tmp_path / name, NAMES)] == values


def test_files_that_are_not_read(tmp_path):
    np.save(tmp_path / "labels.npy", np.array([3, "cat"], object), allow_pickle=True)
    (tmp_path / "scalar.npy").write_bytes(b"")
    np.save(tmp_path / "scalar.npy", np.array(3))
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\xff")
    for name in ("labels.npy", "scalar.npy", "bytes.txt", "missing.npy", "missing.txt"):
        with pytest.raises(InputError, match=f"^cannot read .*{name}: "):
            read_labels(tmp_path / name, NAMES)
