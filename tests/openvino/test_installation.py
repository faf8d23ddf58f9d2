"""The name `openvino` in this process, programs that are started with it, and the names of modules."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import irrun
import irrun.openvino as ov
from irrun.openvino import __main__ as program
from irrun.openvino import install
from irrun.openvino.module_names import PACKAGE, ModuleFinder, find_module_name, load_as

NAMES = ("openvino", "openvino_genai")


def is_openvino(name: str) -> bool:
    return name.partition(".")[0] in NAMES


@pytest.fixture
def without_openvino(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no module of OpenVINO be imported, and restore all modules and finders afterwards."""
    modules = {name: module for name, module in sys.modules.items() if is_openvino(name)}
    for name in modules:
        del sys.modules[name]
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    yield
    for name in [name for name in sys.modules if is_openvino(name)]:
        del sys.modules[name]
    sys.modules.update(modules)
    for module in (ov, importlib.import_module("irrun.openvino_genai")):
        module.__spec__ = importlib.util.find_spec(module.__name__)


@pytest.fixture
def not_installed(without_openvino: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let OpenVINO not be installed."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "openvino" else find_spec(name)
    )


@pytest.fixture
def installed(without_openvino: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let OpenVINO be installed."""
    find_spec = importlib.util.find_spec
    spec = types.SimpleNamespace()
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: spec if name == "openvino" else find_spec(name)
    )


# Installation


def test_openvino_is_installed_once(not_installed: None) -> None:
    module = irrun.install_as_openvino()
    finders = [*sys.meta_path]
    assert module is sys.modules["openvino"] is ov
    assert irrun.install_as_openvino() is irrun.install_as_openvino(replace=True) is ov
    assert sys.meta_path == finders
    assert importlib.import_module("openvino.runtime") is importlib.import_module("openvino") is ov
    assert importlib.import_module("openvino.runtime.op") is importlib.import_module("irrun.openvino.op")
    genai = importlib.import_module("irrun.openvino_genai")
    assert importlib.import_module("openvino_genai") is genai
    assert importlib.import_module("openvino_genai.py_openvino_genai") is genai


def test_installed_openvino_is_replaced_only_if_asked(installed: None) -> None:
    with pytest.raises(RuntimeError, match=r"openvino is installed; pass replace=True to use irrun\.openvino instead"):
        irrun.install_as_openvino()
    assert "openvino" not in sys.modules
    assert irrun.install_as_openvino(replace=True) is sys.modules["openvino"] is ov


def test_imported_openvino_is_replaced_only_if_asked(not_installed: None) -> None:
    others = {name: types.ModuleType(name) for name in ("openvino", "openvino.op", "openvino_genai", "openvino_other")}
    sys.modules.update(others)
    with pytest.raises(RuntimeError, match="openvino is installed"):
        irrun.install_as_openvino()
    irrun.install_as_openvino(replace=True)
    assert sys.modules["openvino"] is ov
    assert not {"openvino.op", "openvino_genai"} & sys.modules.keys()
    assert sys.modules.pop("openvino_other") is others["openvino_other"]


def test_tools_are_those_of_openvino_if_it_is_installed(
    not_installed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    irrun.install_as_openvino()
    (tmp_path / "openvino" / "tools").mkdir(parents=True)
    (tmp_path / "openvino" / "tools" / "__init__.py").write_text("NAME = 'tools'")
    finder = next(f for f in sys.meta_path if isinstance(f, install._Finder))
    monkeypatch.setattr(sys, "path", ["", str(tmp_path)])
    assert finder.find_spec("openvino.tools", None).origin == str(tmp_path / "openvino" / "tools" / "__init__.py")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "nothing")])
    spec = finder.find_spec("openvino.tools", None)
    assert (spec.name, spec.loader, spec.submodule_search_locations) == ("openvino.tools", None, [])
    assert importlib.import_module("openvino.tools.ovc") is importlib.import_module("irrun.openvino.ovc")
    assert finder.find_spec("numpy", None) is finder.find_spec("openvino.nothing", None) is None


def test_openvino_has_a_version(not_installed: None) -> None:
    irrun.install_as_openvino()
    finder = next(f for f in sys.meta_path if isinstance(f, install._Finder))
    for name, count in (("openvino", 1), (None, 1), ("numpy", 0)):
        distributions = list(finder.find_distributions(types.SimpleNamespace(name=name)))
        assert [d.version for d in distributions] == ["2026.4.0"] * count
    assert len(list(finder.find_distributions())) == 1
    distribution = next(iter(finder.find_distributions()))
    assert (distribution.metadata["Name"], distribution.metadata["Metadata-Version"]) == ("openvino", "2.1")
    assert distribution.read_text("METADATA") == distribution.read_text("PKG-INFO")
    assert distribution.read_text("RECORD") is None
    assert str(distribution.locate_file("path")) == "path"


# Programs


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that starts a program, with the arguments of each installation."""
    calls: list[bool] = []
    monkeypatch.setattr(program, "install_as_openvino", lambda *, replace: calls.append(replace))
    monkeypatch.setattr(sys, "argv", ["python"])
    monkeypatch.setattr(sys, "path", ["first", *sys.path])

    def run(*arguments: str) -> tuple[int, list[bool]]:
        calls.clear()
        return program.main(arguments), [*calls]

    return run


SCRIPT = "import sys\nprint(__name__, sys.argv[1:], sys.path[0])\n"


def test_scripts_are_run(start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    assert start(str(path), "--replace", "-m") == (0, [False])
    assert start("--replace", str(path), "a") == (0, [True])
    assert capsys.readouterr().out == f"__main__ ['--replace', '-m'] {tmp_path}\n__main__ ['a'] {tmp_path}\n"


def test_modules_are_run(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "started_module.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    assert start("-m", "started_module", "a", "-h") == (0, [False])
    assert start("--replace", "-m", "started_module") == (0, [True])
    assert capsys.readouterr().out == f"__main__ ['a', '-h'] {tmp_path}\n__main__ [] {tmp_path}\n"


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["-h"], 0), (["--help"], 0), (["--replace"], 2), (["-m"], 2), (["-m", "-h"], 0)]
)
def test_usage(start: Any, arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert start(*arguments) == (code, [])
    assert capsys.readouterr().out == program.USAGE


def test_installed_openvino_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*, replace: bool) -> None:
        raise RuntimeError("openvino is installed")

    monkeypatch.setattr(program, "install_as_openvino", refuse)
    assert program.main(["script.py"]) == 2
    assert capsys.readouterr().err == "openvino is installed; pass --replace to use irrun instead\n"


def test_programs_that_cannot_be_read_are_reported(
    start: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert start("-m", "absent_module.part") == (2, [False])
    assert start("absent.py") == (2, [False])
    assert capsys.readouterr() == (
        "",
        "python -m irrun.openvino: there is no module absent_module.part\n"
        "python -m irrun.openvino: cannot read absent.py: No such file or directory\n",
    )


def test_folders_and_archives_are_run(start: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__main__.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    with zipfile.ZipFile(tmp_path / "archive", "w") as archive:
        archive.write(folder / "__main__.py", "__main__.py")
    assert start(str(folder), "a") == (0, [False])
    assert start(str(tmp_path / "archive"), "b") == (0, [False])
    assert capsys.readouterr().out == "__main__ ['a']\n__main__ ['b']\n"


# Names of modules


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("", ""),
        ("runtime", ""),
        ("pyopenvino", ""),
        ("_pyopenvino", ""),
        ("ie_api", ""),
        ("runtime.utils", "utils"),
        ("runtime.runtime", ""),
        ("runtime.utils.types", "utils.types"),
        ("opset8", "opset8"),
        ("opset8.ops", "opset8"),
        ("runtime.opset13.ops", "opset13"),
        ("op.util", "op.util"),
        ("_op_base", "custom_operation"),
        ("util", "utils"),
        ("opset_utils", "utils.node_factory"),
        ("package_utils", "utils"),
        ("passes.manager", "passes"),
        ("passes.graph_rewrite", "passes"),
        ("frontend.frontend", "frontend"),
        ("tools.mo", "mo"),
        ("tools.mo.convert", "mo"),
        ("tools.ovc", "ovc"),
        ("tools.ovc.convert", "ovc"),
        ("utils.data_helpers.wrappers", "utils.data_helpers"),
        ("utils.data_helpers.data_dispatcher", "utils.data_helpers"),
        ("preprocess", "preprocess"),
        ("nothing", None),
        ("nothing.more", None),
        ("utils.runtime", None),
        ("opset99", None),
        ("myopset8.ops", None),
    ],
)
def test_own_modules_have_the_names_of_openvino(name: str, own: str | None) -> None:
    assert find_module_name(name) == (own if own is None else f"{PACKAGE}.{own}".rstrip("."))


def test_finders_find_the_modules_of_their_package() -> None:
    finder = ModuleFinder("name")
    assert finder.find_spec("name", None).loader.own_name == PACKAGE
    assert finder.find_spec("name.runtime.op", None).loader.own_name == f"{PACKAGE}.op"
    assert finder.find_spec("name.nothing", None) is finder.find_spec("names", None) is None
    own = ModuleFinder(PACKAGE)
    assert own.find_spec(f"{PACKAGE}.runtime.op", None).loader.own_name == f"{PACKAGE}.op"
    assert own.find_spec(f"{PACKAGE}.op", None) is own.find_spec(PACKAGE, None) is None


def test_modules_keep_their_specifications() -> None:
    module = importlib.import_module("irrun.openvino.op")
    before = module.__spec__
    spec = load_as("other", "irrun.openvino.op")
    assert (spec.name, spec.submodule_search_locations) == ("other", [])
    loaded = importlib.util.module_from_spec(spec)
    assert loaded is module
    assert spec.loader is not None
    spec.loader.exec_module(loaded)
    assert module.__spec__ is before


def test_submodules_are_imported_when_they_are_used() -> None:
    for name in ("passes", "preprocess", "utils", "runtime", "helpers", "exceptions"):
        assert getattr(ov, name) is importlib.import_module(f"irrun.openvino.{name}")
    for name in (
        "broadcasting",
        "data_helpers",
        "decorators",
        "input_validation",
        "node_factory",
        "reduction",
        "types",
    ):
        assert getattr(ov.utils, name) is importlib.import_module(f"irrun.openvino.utils.{name}")
    for module in (ov, ov.utils):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            _ = module.nothing
    assert [f"opset{n}" for n in range(20) if hasattr(ov, f"opset{n}")] == [f"opset{n}" for n in range(1, 18)]


def test_functions_of_opsets_are_listed() -> None:
    assert {"add", "relu", "tensor_iterator", "parameter"} <= set(dir(ov.opset1))
    assert not {"assign", "gelu", "loop", "if_op"} & set(dir(ov.opset1))
    assert {"assign", "gelu", "loop"} <= set(dir(ov.opset5))
    assert "if_op" not in dir(ov.opset7)
    assert "if_op" in dir(ov.opset8)
    assert "assign" not in dir(ov.opset2)
    assert "assign" in dir(ov.opset3)
    assert [*dir(ov.opset13)] == sorted(dir(ov.opset13))
    for module, name in ((ov.opset1, "loop"), (ov.opset4, "loop"), (ov.opset7, "if_op"), (ov.opset1, "nothing")):
        with pytest.raises(AttributeError, match=name):
            getattr(module, name)
    assert ov.opset5.loop is ov.op.loop
    assert (ov.opset13.__name__, ov.opset1.add is ov.opset1.add) == ("irrun.openvino.opset13", True)
