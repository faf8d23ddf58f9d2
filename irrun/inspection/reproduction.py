"""Files that reproduce a failure: a model, its inputs, and a script that runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from irrun.atomic_files import atomic_write, check_not_overwriting
from irrun.data.save import save_outputs
from irrun.errors import InputError
from irrun.inspection.parts import Part
from irrun.ir.writer import save_model
from irrun.runtime.options import DEFAULT_SETTINGS, RunSettings

__all__ = ["PART_FILES", "name_inputs", "save_part"]

Array = np.ndarray[Any, Any]

#: The files of a reduction.
PART_FILES = ("model.xml", "model.bin", "inputs.npz", "reference.xml", "reference.bin", "repro.py")

_HEADER = '''\
"""Run model.xml on inputs.npz and check whether it still fails. The exit code is 1 if it does, else 0."""

import sys
from pathlib import Path

'''

_VALUES_SCRIPT = """\
import numpy as np

import irrun
from irrun.inspection import measure, parse_condition

FOLDER = Path(__file__).resolve().parent
LAYERS = {layers}
INPUTS = {names}
CONDITION = parse_condition({condition})


def main():
    model = irrun.read_model(FOLDER / "model.xml")
    with np.load(FOLDER / "inputs.npz") as archive:
        inputs = {{name: archive[name] for name in INPUTS}}
    outputs = irrun.compile_model(model, {options})(list(inputs.values())).to_tuple()
    expected = run_reference(model, inputs)
    fails = CONDITION.holds_for_any([*outputs, *expected]) and not CONDITION.holds_for_any(list(inputs.values()))
    for spec, value, reference in zip(model.outputs, outputs, expected or [None] * len(outputs)):
        print(spec, value)
        if reference is not None:
            metrics = measure(value, reference)
            fails = fails or CONDITION.holds_for_difference(metrics)
            print("reference:", reference)
            print(f"SQNR {{metrics.sqnr_db:.1f}} dB, max abs {{metrics.max_abs:.4g}}")
    print("fails" if fails else "does not fail")
    return int(fails)


def run_reference(model, inputs):
{reference}


if __name__ == "__main__":
    sys.exit(main())
"""

_REFERENCES = {
    "": """\
    return []""",
    "f64": """\
    from irrun.runtime.compiled_model import CompiledModel

    compiled = CompiledModel(model, optimize=False, precision="f64", keeps_output_types=False)
    return compiled(list(inputs.values())).to_tuple()""",
    "openvino": """\
    from irrun.inspection.openvino_model import OpenVinoModel
    from irrun.inspection.openvino_precision import parse_target
    from irrun.runtime.inputs import convert_input

    arrays = [convert_input(value, spec) for value, spec in zip(inputs.values(), model.inputs)]
    return OpenVinoModel(model, parse_target({target})).infer(arrays)""",
    "model": """\
    reference = irrun.read_model(FOLDER / "reference.xml")
    values = irrun.compile_model(reference, {options})([inputs[INPUTS[i]] for i in {order}]).to_tuple()
    return [None if i is None else values[i] for i in {positions}]""",
}

_ERROR_SCRIPT = """\
import numpy as np

import irrun

FOLDER = Path(__file__).resolve().parent
LAYERS = {layers}
INPUTS = {names}


def main():
    try:
        model = irrun.read_model(FOLDER / "model.xml")
        with np.load(FOLDER / "inputs.npz") as archive:
            inputs = {{name: archive[name] for name in INPUTS}}
        run(model, inputs)
    except irrun.IrrunError as error:
        print(error)
        return 1
    print("does not fail")
    return 0


def run(model, inputs):
{reference}


if __name__ == "__main__":
    sys.exit(main())
"""

_COMMAND_SCRIPT = """\
from irrun.inspection.reduction_trials import CANNOT_TEST, run_command

FOLDER = Path(__file__).resolve().parent
LAYERS = {layers}
COMMAND = {words}


if __name__ == "__main__":
    sys.exit(int(run_command(COMMAND, FOLDER) not in (0, CANNOT_TEST)))
"""


def save_part(
    folder: Path,
    part: Part,
    *,
    message: str = "",
    condition: str = "",
    against: str = "",
    command: str = "",
    with_script: bool = True,
    settings: RunSettings = DEFAULT_SETTINGS,
) -> list[Path]:
    """Write a part, its inputs, the part of the other model, and a script that runs them.

    Args:
        folder: The folder, which is created if it does not exist. Each file is written atomically.
        part: The part.
        message: A description of the failure.
        condition: The condition of failure, or "".
        against: The reference, or "".
        command: The test command, or "".
        with_script: Whether to write the script and the part of the other model.
        settings: The settings for compiling the models in the script.

    Returns:
        The files.

    Raises:
        InputError: A file cannot be written, or a model was read from it.
    """
    models = [part.model] if part.counterpart is None else [part.model, part.counterpart]
    check_not_overwriting((folder / name for name in PART_FILES), (path for model in models for path in model.files))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from None
    inputs = name_inputs(part)
    written = list(save_model(part.model, folder / "model.xml"))
    written += save_outputs(inputs, folder / "inputs.npz")
    if not with_script:
        return written
    if part.counterpart is not None:
        written += save_model(part.counterpart, folder / "reference.xml")
    text = _HEADER + _write_script(part, list(inputs), condition, against, command, _write_options(settings))
    if message:
        text = text.replace("LAYERS = ", f"MESSAGE = {message!a}\nLAYERS = ", 1)
    try:
        with atomic_write(folder / "repro.py") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise InputError(f"cannot write {folder / 'repro.py'}: {error.strerror or error}") from None
    return [*written, folder / "repro.py"]


def name_inputs(part: Part) -> dict[str, Array]:
    """Return the inputs of a part by unique names, in the order of the Parameters.

    Args:
        part: The part.
    """
    named: dict[str, Array] = {}
    for i, (spec, value) in enumerate(zip(part.model.inputs, part.inputs, strict=True)):
        name = next(n for n in (*spec.names, f"input{i}", f"input{i}#") if n not in named)
        named[name] = value
    return named


def _write_options(settings: RunSettings) -> str:
    """Return the arguments of `compile_model` that may change whether a part fails."""
    values = {name: getattr(settings, name) for name in ("precision", "memory")}
    changed = {name: value for name, value in values.items() if value != getattr(DEFAULT_SETTINGS, name)}
    return ", ".join(["optimize=False", *(f"{name}={value!a}" for name, value in changed.items())])


def _write_script(part: Part, names: list[str], condition: str, against: str, command: str, options: str) -> str:
    """Return the script. Names come from files, so they are only written as literals."""
    layers = ascii(part.keys)
    if command:
        import shlex

        return _COMMAND_SCRIPT.format(layers=layers, words=ascii(shlex.split(command)))
    is_error = condition == "error"
    if part.counterpart is not None and not is_error:
        kind = "model"
    elif against.startswith("openvino"):
        kind = "openvino"
    else:
        kind = "f64" if against == "f64" and not is_error else ""
    order = _find_order(part, names) if kind == "model" else []
    reference = _REFERENCES[kind].format(target=ascii(against), order=order, positions=part.positions, options=options)
    if not is_error:
        return _VALUES_SCRIPT.format(
            layers=layers, names=ascii(names), condition=ascii(condition), reference=reference, options=options
        )
    if kind == "":
        reference = f"    irrun.compile_model(model, {options})(list(inputs.values()))"
    return _ERROR_SCRIPT.format(layers=layers, names=ascii(names), reference=reference)


def _find_order(part: Part, names: list[str]) -> list[int]:
    """Return the positions of the inputs that the part shares with the counterpart."""
    assert part.counterpart is not None
    own = {name: i for i, spec in enumerate(part.model.inputs) for name in reversed((*spec.names, spec.layer.name))}
    specs = part.counterpart.inputs
    found = [next((own[n] for n in (spec.layer.name, *spec.names) if n in own), None) for spec in specs]
    if None in found or len(specs) != len(set(found)):
        return list(range(len(specs)))
    return [i for i in found if i is not None]
