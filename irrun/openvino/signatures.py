"""Parameters of the functions of OpenVINO's opsets.

`docs/make_openvino_signatures.py` writes `signatures.txt` from the installed `openvino` package. Each line has a
function, the first opset with this signature, the type of the operation, and the parameters. A default is listed where
the specification has none or another one.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ["SIGNATURES"]


def _read_signatures() -> dict[str, list[tuple[int, str, str]]]:
    signatures: dict[str, list[tuple[int, str, str]]] = {}
    for line in (files(__package__) / "signatures.txt").read_text(encoding="utf-8").splitlines():
        function, opset, operation, *parameters = line.split(" ")
        signatures.setdefault(function, []).append((int(opset), operation, " ".join(parameters)))
    return signatures


#: By function: the first opset with a signature, the type of the operation, and its parameters.
SIGNATURES = _read_signatures()
