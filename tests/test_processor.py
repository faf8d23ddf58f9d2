"""The processor that irrun computes for, which IRRUN_CPU names."""

from __future__ import annotations

import platform

import numpy as np
import pytest
from command_line import call
from ir_text import chain, write

import irrun
from irrun import blas
from irrun.errors import InputError
from irrun.processor import LEVELS, X86_64, allows_feature, check_processor, get_level

UNKNOWN = "IRRUN_CPU is 'pentium', expected one of host, x86-64, x86-64-v2, x86-64-v3, x86-64-v4"
X = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def on_x86_64(monkeypatch):
    """Accept the levels of x86-64 on all processors."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


@pytest.mark.usefixtures("on_x86_64")
@pytest.mark.parametrize(
    ("text", "level"),
    [("", None), ("host", None), (" Host ", None), ("x86-64", "x86-64"), ("X86-64-V3", "x86-64-v3")],
)
def test_variable_names_a_level(text, level, monkeypatch):
    monkeypatch.setenv("IRRUN_CPU", text)
    assert get_level() == level
    monkeypatch.delenv("IRRUN_CPU")
    assert get_level() is None


@pytest.mark.usefixtures("on_x86_64")
def test_unknown_processors_are_refused(tmp_path, monkeypatch, capsys):
    path = write(tmp_path, chain("Relu"))
    monkeypatch.setenv("IRRUN_CPU", "pentium")
    for jit in (False, "auto"):
        with pytest.raises(InputError, match=UNKNOWN):
            irrun.compile_model(path, jit=jit)
    for arguments in (["run", path, "--input", "random"], ["info", path, "--plan"]):
        code, _, errors = call(capsys, *arguments)
        assert code == 2
        assert errors.startswith(f"irrun: {UNKNOWN}")
        assert errors.count("\n") == 1


@pytest.mark.parametrize("text", ["x86-64", "pentium"])
def test_other_processors_have_no_levels(text, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setenv("IRRUN_CPU", text)
    with pytest.raises(InputError, match=f"^IRRUN_CPU is '{text}', expected 'host', the only value on aarch64$"):
        get_level()
    assert allows_feature("neon")
    monkeypatch.setenv("IRRUN_CPU", "host")
    assert get_level() is None


def test_processors_without_the_features_of_a_level_are_refused():
    check_processor("x86-64-v3", LEVELS["x86-64-v4"])
    features = LEVELS["x86-64-v3"] - {"fma", "avx2"}
    with pytest.raises(InputError) as caught:
        check_processor("x86-64-v3", features)
    assert str(caught.value) == (
        "IRRUN_CPU is 'x86-64-v3', but this processor lacks avx2, fma; expected a lower level or 'host'"
    )


@pytest.mark.usefixtures("on_x86_64")
def test_processor_is_checked_where_kernels_may_be_compiled(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite")
    from irrun.fast.jit import compiler

    compiler._get_compiler()  # of this processor, for the tests that follow
    path = write(tmp_path, chain("Relu"))
    monkeypatch.setenv("IRRUN_CPU", "x86-64-v3")
    monkeypatch.setattr(compiler, "_get_compiler", lambda: compiler._Compiler(get_level()))
    monkeypatch.setitem(LEVELS, "x86-64-v3", LEVELS["x86-64-v3"] | {"moore"})
    for jit in (True, "auto"):
        with pytest.raises(InputError, match=r"this processor lacks .*moore"):
            irrun.compile_model(path, jit=jit)
    np.testing.assert_array_equal(irrun.compile_model(path, jit=False)(X)[0], np.maximum(X, 0))


@pytest.mark.usefixtures("on_x86_64")
def test_levels_limit_what_irrun_chooses(monkeypatch):
    monkeypatch.setattr(blas, "_find_function", lambda *_: pytest.fail("OpenBLAS is asked"))
    monkeypatch.setenv("IRRUN_CPU", "x86-64-v3")
    assert allows_feature("avx2")
    assert not allows_feature("avx512f")
    assert not blas.has_small_kernels.__wrapped__()
    monkeypatch.setenv("IRRUN_CPU", "x86-64-v4")
    assert allows_feature("avx512f")
    assert not allows_feature("avx512vnni")
    for text in ("host", "pentium"):  # the latter is refused where a model is compiled
        monkeypatch.setenv("IRRUN_CPU", text)
        assert allows_feature("avx512vnni")


@pytest.mark.skipif(platform.machine() not in X86_64, reason="the levels are those of x86-64")
def test_kernels_of_levels_are_cached_apart(tmp_path, monkeypatch):
    pytest.importorskip("llvmlite")
    from irrun.fast.jit import compiler
    from irrun.fast.jit.code import Function

    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    f = Function("double", [("x", "ptr")], 4)
    value = f.load(f.parameters["x"], f.vector)
    f.store(value + value, f.parameters["x"])
    text, signatures = f.get_text(), {f.name: f.signature}
    compilers = [compiler._Compiler(level) for level in (None, "x86-64", None, "x86-64")]
    for count, each in enumerate(compilers, 1):
        x = np.array([1, 2, 3, 4], np.float32)
        each.get(text, signatures)["double"](x.ctypes.data)
        np.testing.assert_array_equal(x, [2, 4, 6, 8])
        assert len(list((tmp_path / "jit").iterdir())) == min(count, 2)
    assert (compilers[1].cpu, compilers[1].lanes) == ("x86-64", 4)
