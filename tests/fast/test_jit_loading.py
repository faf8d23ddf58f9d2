"""Loading kernels from the cache: without LLVM, and without the functions that make their source texts."""

import importlib.util
import os
import platform
import struct
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")

loads_objects = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() != "x86_64", reason="LLVM loads the object code"
)

#: Prints whether LLVM was imported, the number of compiled and of made kernels, and the bits of a result.
PROGRAM = """
import sys
import numpy as np
from irrun.fast.jit import compiler, elementwise
from irrun.fast.jit.expressions import Step
from irrun.fast.jit.kernels import ExpressionKernel
compiled, made, compile_text, compile_function = [], [], compiler._Compiler.compile, elementwise.compile_function
compiler._Compiler.compile = lambda *arguments: compiled.append(1) or compile_text(*arguments)
elementwise.compile_function = lambda f: made.append(1) or compile_function(f)
x = np.linspace(-4, 4, 1003, dtype=np.float32)
result = ExpressionKernel(1, (Step("Tanh", (0,)),), [])(x)
print("llvmlite" in sys.modules, len(compiled), len(made), result.tobytes().hex())
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of an empty cache."""
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(tmp_path))
    return tmp_path / "jit"


def run():
    """Compute in a new process; return whether it imported LLVM, the numbers of kernels, and the bits."""
    process = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert process.stderr == ""
    uses_llvm, compiled, made, bits = process.stdout.split()
    return uses_llvm == "True", int(compiled), int(made), bits


def find(folder, suffix):
    (path,) = folder.rglob(f"*{suffix}")
    return path


def damage(path):
    path.write_bytes(path.read_bytes()[:-1])


@loads_objects
def test_cached_kernels_are_loaded_without_llvm(folder):
    first = run()
    assert first[:3] == (True, 1, 1)
    assert run() == (False, 0, 0, first[3])


@loads_objects
@pytest.mark.parametrize(
    ("suffix", "expected"),
    [(".alias", (False, 0, 1)), (".host", (True, 0, 0)), ("", (True, 1, 1))],
    ids=["alias", "host", "kernel"],
)
@pytest.mark.parametrize("change", ["damaged", "missing", "unknown"])
def test_files_of_the_cache_are_replaced(suffix, expected, change, folder):
    from irrun.fast.jit import cache

    bits = run()[3]
    path = next(path for path in folder.rglob("*") if path.is_file() and path.suffix == suffix)
    content = path.read_bytes()
    if change == "damaged":
        damage(path)
    elif change == "missing":
        path.unlink()
    else:
        cache.save(str(path.relative_to(folder)), b"a later format")
    assert run() == (*expected, bits)
    assert path.read_bytes() == content


@loads_objects
def test_kernels_that_others_may_write_are_not_loaded(folder):
    bits = run()[3]
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(0o666)
    assert run() == (True, 1, 1, bits)


def test_other_processors_are_described_by_llvm(folder, monkeypatch):
    from irrun.fast.jit import host
    from irrun.processor import find_features

    own = host.find_host()
    monkeypatch.setattr(host, "ask_llvm", lambda: own._replace(cpu="other"))
    features = find_features()
    monkeypatch.setattr(host, "find_features", lambda: {**features, "NEW": True})
    assert host.find_host().cpu == "other"
    monkeypatch.undo()
    monkeypatch.setenv("IRRUN_CACHE_DIR", str(folder.parent))
    assert host.find_host() == own
    monkeypatch.setattr(host, "ask_llvm", lambda: own._replace(cpu="other"))
    monkeypatch.setattr(host, "_read_processor", lambda: ["flags: new"])
    assert host.find_host().cpu == "other"
    monkeypatch.setattr(host, "_read_processor", lambda: None)
    monkeypatch.setattr(host, "ask_llvm", lambda: own)
    assert host.find_host() == own


def test_descriptions_are_those_of_llvm(folder):
    from irrun.fast.jit import host

    expected = host.ask_llvm()
    assert host.find_host() == expected
    assert host.find_host() == expected


def test_changes_of_the_code_make_aliases_unknown(monkeypatch, tmp_path):
    from irrun.fast.jit import compiler

    module = tmp_path / "fast/jit/compiler.py"
    module.parent.mkdir(parents=True)
    module.write_text("")
    monkeypatch.setattr(compiler, "__file__", str(module))
    describe = compiler._describe_code.__wrapped__
    first = describe()
    assert describe() == first
    os.utime(module, (1, 1))
    second = describe()
    (tmp_path / "fast/new.py").write_text("")
    assert len({first, second, describe()}) == 3


def test_functions_are_made_once_per_argument(folder, monkeypatch):
    """Arguments without a lasting text, such as functions, are not cached on disk."""
    from irrun.fast.jit import compiler
    from irrun.fast.jit.code import Function

    monkeypatch.setattr(compiler, "USES_ALIASES", True)
    made = []

    def make(value, *, factor=1):
        made.append((value, factor))
        f = Function("scale", [("x", "ptr")], 4)
        number = f.load(f.parameters["x"], f.vector)
        f.store(number * float(factor), f.parameters["x"])
        return compiler.compile_function(f)

    def scale(*arguments, **named):
        x = np.array([1, 2, 3, 4], np.float32)
        cached(*arguments, **named)(x.ctypes.data)
        return x.tolist()

    cached = compiler.cache_kernel(make)
    for _ in range(2):
        assert scale(1) == [1, 2, 3, 4]
        assert scale(1, factor=3) == [3, 6, 9, 12]
        assert scale(print, factor=2) == [2, 4, 6, 8]
        assert scale(test_functions_are_made_once_per_argument, factor=2) == [2, 4, 6, 8]
    assert len(made) == 4
    assert len(list(folder.rglob("*.alias"))) == 3
    cached.cache_clear()
    assert scale(1, factor=3) == [3, 6, 9, 12]
    assert scale(1) == [1, 2, 3, 4]
    assert len(made) == 4
    assert scale(test_functions_are_made_once_per_argument, factor=2) == [2, 4, 6, 8]
    assert len(made) == 5


def compile_object(function):
    from irrun.fast.jit import compiler

    return compiler._get_compiler().compile(function.get_text())


def make_function():
    """Return a function with constants in memory."""
    from irrun.fast.jit.code import Function

    f = Function("add", [("x", "ptr")], 4)
    value = f.load(f.parameters["x"], f.vector)
    numbers = ", ".join(f"float {n}.5" for n in range(4))
    f.store(f.emit(f.vector, f"fadd {f.vector} {value}, <{numbers}>"), f.parameters["x"])
    return f


@loads_objects
def test_code_and_constants_are_found():
    from irrun.fast.jit.compiler import Kernel
    from irrun.fast.jit.objects import load_object

    code = compile_object(make_function())
    assert b".rodata" in code
    for _ in range(2):
        addresses = load_object(code, ["add", "add.entry"])
        x = np.ones(5, np.float32)
        Kernel(addresses["add"], ("ptr",))(x.ctypes.data)
        np.testing.assert_array_equal(x, [1.5, 2.5, 3.5, 4.5, 1])


@loads_objects
def test_other_files_are_left_to_llvm():
    from irrun.fast.jit.objects import load_object

    code = compile_object(make_function())
    assert load_object(code, ["add", "missing"]) is None
    for size in range(0, len(code), 7):
        assert load_object(code[:size], ["add"]) is None
    for place, value in ((0, 1), (4, 1), (5, 2), (16, 3), (18, 183)):  # ELF, 64 bits, byte order, type, machine
        assert load_object(code[:place] + bytes([value]) + code[place + 1 :], ["add"]) is None
    function = make_function()
    function.declarations.add("void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    function.append("call void @llvm.memset.p0.i64(ptr %x, i8 0, i64 1000, i1 false)")
    assert load_object(compile_object(function), ["add"]) is None


@loads_objects
def test_systems_that_forbid_executable_memory_use_llvm(monkeypatch):
    from irrun.fast.jit import compiler, objects

    def fail(start, size):
        raise OSError

    monkeypatch.setattr(objects, "_make_executable", fail)
    function = make_function()
    assert objects.load_object(compile_object(function), ["add"]) is None
    x = np.ones(5, np.float32)
    compiler.compile_function(function)(x.ctypes.data)
    np.testing.assert_array_equal(x, [1.5, 2.5, 3.5, 4.5, 1])


def test_answers_of_llvm_are_kept(folder, monkeypatch):
    from irrun.fast.jit import compiler

    text = make_function().get_text()
    compiled = []
    compile_text = compiler._Compiler.compile

    def record(self, text):
        compiled.append(text)
        return compile_text(self, text)

    monkeypatch.setattr(compiler._Compiler, "compile", record)
    for _ in range(2):
        assert compiler.verify_text(text)
        assert not compiler.verify_text("no module")
    assert compiled == [text, "no module"]


# Object code of any content

PC64, GOTOFF64, GOT64, GOTPC64 = 24, 25, 27, 29
CODE, DATA, ZEROS = 1, 2, 3
TABLE = "_GLOBAL_OFFSET_TABLE_"


def build_object(relocations=(), functions=(("f", CODE, 4),), **changes):
    """Return object code with three loaded sections, a section that is empty, and one that is not loaded.

    Args:
        relocations: The offset in the code, the number of the symbol, the type and the addend of each.
        functions: The name of each symbol after the first three, its section and its value.
        changes: Other flags or alignments: code_flags, data_alignment.
    """
    symbols = [("", 0, 0), (TABLE, 0, 0), ("d", DATA, 8), *functions]
    names = b"".join(name.encode() + b"\0" for name, *_ in symbols)
    table, place = b"", 0
    for name, section, value in symbols:
        table += struct.pack("<IBBHQQ", place, 0, 0, section, value, 0)
        place += len(name) + 1
    moved = b"".join(struct.pack("<QQq", o, symbol << 32 | kind, addend) for o, symbol, kind, addend in relocations)
    # type, flags, content, link, info, alignment
    sections = [
        (0, 0, b"", 0, 0, 0),
        (1, 2 | changes.get("code_flags", 0), bytes(range(40)), 0, 0, 16),
        (1, 2, b"d" * 24, 0, 0, changes.get("data_alignment", 64)),
        (8, 2, b"z" * 32, 0, 0, 0),
        (1, 2, b"", 0, 0, 8192),
        (1, 0, b"comment", 0, 0, 8192),
        (2, 0, table, 7, 0, 8),
        (3, 0, names, 0, 0, 1),
        (4, 0, moved, 6, CODE, 8),
        (4, 0, struct.pack("<QQq", 0, 9 << 32 | 77, 0), 6, 5, 8),  # of the section that is not loaded
    ]
    contents, headers, offset = b"", b"", 64
    for sort, flags, content, link, info, alignment in sections:
        size = len(content)
        headers += struct.pack("<IIQQQQIIQQ", 0, sort, flags, 0, offset, size, link, info, alignment, 0)
        contents += content
        offset += size
    start = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 1, 62, 1, 0, 0, offset, 0, 64, 0, 0, 64, len(sections), 0
    )
    return start + contents + headers


@pytest.fixture
def load(monkeypatch):
    """Return a function that loads object code without executing it, and returns the offsets and the memory."""
    from irrun.fast.jit import objects

    executable = []
    monkeypatch.setattr(objects, "_make_executable", lambda start, size: executable.append((start, size)))
    monkeypatch.setattr(objects, "_loaded", [])

    def run(code, *names):
        found = objects.load_object(code, names)
        if found is None:
            assert not objects._loaded
            assert not executable
            return None
        ((start, size),) = executable
        (memory,) = objects._loaded
        assert len(memory) == size
        offsets = {name: address - start for name, address in found.items()}
        return offsets, start, memory

    return run


@loads_objects
def test_loaded_sections_are_aligned_behind_the_table_of_addresses(load):
    offsets, _, memory = load(build_object(functions=[("f", CODE, 4), ("g", ZEROS, 1)]), "f", "g", "d")
    assert offsets == {"f": 4, "d": 64 + 8, "g": 88 + 1}
    assert memory[:40] == bytes(range(40))
    assert memory[64:88] == b"d" * 24
    assert memory[88:] == bytes(32)


@loads_objects
def test_addresses_are_differences_to_places_and_to_the_table(load):
    relocations = [(0, 2, PC64, 3), (8, 2, GOTOFF64, -5), (16, 2, GOT64, 1), (24, 1, GOTPC64, 7), (32, 3, GOT64, 2)]
    offsets, start, memory = load(build_object(relocations), "f")
    # two addresses, the code from 16 on, the data from 64 on
    assert offsets == {"f": 16 + 4}
    assert struct.unpack_from("<2Q", memory) == (start + 64 + 8, start + 16 + 4)
    assert struct.unpack_from("<5q", memory, 16) == (64 + 8 + 3 - 16, 64 + 8 - 5, 0 + 1, 7 - (16 + 24), 8 + 2)
    assert memory[64:88] == b"d" * 24


@loads_objects
@pytest.mark.parametrize(
    ("changes", "is_loaded"),
    [
        ({"relocations": [(32, 2, PC64, 0)]}, True),
        ({"relocations": [(33, 2, PC64, 0)]}, False),  # beyond the section
        ({"relocations": [(0, 2, 26, 0)]}, False),  # unknown
        ({"relocations": [(0, 1, PC64, 0)]}, False),  # only the table itself has this type
        ({"relocations": [(0, 2, GOTPC64, 0)]}, False),
        ({"relocations": [(0, 4, PC64, 0)], "functions": [("f", CODE, 4), ("g", 0, 0)]}, False),  # undefined
        ({"relocations": [(0, 4, GOT64, 0)], "functions": [("f", CODE, 4), ("g", 0, 0)]}, False),
        ({"functions": [("f", CODE, 4), ("g", 0, 0)]}, True),
        ({"functions": [("f", 0, 4)]}, False),
        ({"functions": [("g", CODE, 4)]}, False),
        ({"code_flags": 0x400}, False),
        ({"data_alignment": 4096}, True),
        ({"data_alignment": 1}, True),
        ({"data_alignment": 8192}, False),
        ({"data_alignment": 24}, False),
    ],
    ids=str,
)
def test_object_code_with_other_features_is_left_to_llvm(load, changes, is_loaded):
    assert (load(build_object(**changes), "f") is not None) == is_loaded
