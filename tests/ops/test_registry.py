"""The registry of operations, and the modules of kernels that it imports."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest

import irrun
from irrun.element_types import ElementType
from irrun.ops._support import registry
from irrun.ops._support.attributes import Attribute
from irrun.ops._support.operation import Operation, StructuralOperation
from irrun.shapes import PartialShape

if TYPE_CHECKING:
    from typing import Any as Nowhere

    import numpy.typing as npt


@pytest.fixture(autouse=True)
def _restore_registry(monkeypatch):
    """Remove the operations that a test registers."""
    monkeypatch.setattr(registry, "_registry", registry.Registry(registry.list_operations()))


def run_python(code: str) -> str:
    """Run code in a new process, which has imported no kernels, and return its output."""
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("spelling", "type", "version"),
    [
        ("Prelu", "PRelu", "opset1"),
        ("ReLU", "Relu", "opset1"),
        ("SoftMax", "Softmax", "opset8"),
        ("LogSoftMax", "LogSoftmax", "opset5"),
        ("LOGICALXOR", "LogicalXor", "opset1"),
        ("Softplus", "SoftPlus", "opset4"),
        ("Const", "Constant", "opset1"),
        ("Pow", "Power", "opset1"),
        ("swish", "Swish", "type_relaxed_opset"),
    ],
)
def test_case_does_not_matter_in_names(spelling: str, type: str, version: str) -> None:
    operation = registry.find(spelling, version)
    assert operation is not None
    exact = registry.find(type, version)
    assert exact is not None
    assert (operation.type, operation.since) == (exact.type, exact.since) == (type, exact.since)


def test_list_may_end_in_comma() -> None:
    pool = registry.find("AvgPool", "opset1")
    assert pool is not None
    attributes = {"kernel": "2, 3,", "strides": "1,", "pads_begin": "", "pads_end": "0", "exclude-pad": "false"}
    bound = pool.bind(attributes)
    assert (bound["kernel"], bound["strides"], bound["pads_begin"]) == ([2, 3], [1], [])
    with pytest.raises(irrun.ModelError, match="kernel='2,,3'"):
        pool.bind(attributes | {"kernel": "2,,3"})


def test_unknown_operations_are_not_found() -> None:
    assert registry.find("Relux", "opset1") is None
    assert registry.find("Mystery", "") is None


def test_signatures_of_all_kernels_are_valid() -> None:
    operations = list(registry.list_operations())
    assert len(operations) > 200
    for operation in operations:
        if not isinstance(operation, StructuralOperation):
            operation.check_signature()


@pytest.mark.parametrize(
    ("type", "inputs", "attributes"),
    [
        ("Parameter", [], ["shape", "element_type"]),
        ("Constant", [], ["element_type", "shape", "offset", "size"]),
        ("Result", ["value"], []),
    ],
)
def test_structural_operation_is_described(type: str, inputs: list[str], attributes: list[str]) -> None:
    operation = registry.find(type, "opset1")
    assert isinstance(operation, StructuralOperation)
    assert operation.category == "infrastructure"
    assert operation.summary.endswith(".")
    assert [port.name for port in operation.inputs] == inputs
    assert [attribute.name for attribute in operation.attributes] == attributes
    assert all(attribute.type_name for attribute in operation.attributes)
    with pytest.raises(NotImplementedError, match="no kernel"):
        operation.kernel()


def test_signature_with_every_kind_of_parameter() -> None:
    @irrun.op("Everything", opset="custom")
    def everything(
        data: npt.NDArray[np.float32],  # imported for type checkers only
        second=None,
        *rest,
        plain,
        number: int = 2,
        ratio: float | None = None,
        flag: bool = False,
        mode: Literal["a", "b"] = "a",
        sizes: list[int] = [1],  # noqa: B006
        type: irrun.ElementType | None = None,
    ):
        return data

    operation = registry.find("Everything", "custom")
    assert operation is not None
    assert operation.kernel is everything
    assert [(i.name, i.optional, i.variadic) for i in operation.inputs] == [
        ("data", False, False),
        ("second", True, False),
        ("rest", True, True),
    ]
    texts = {"plain": "x", "number": "3", "ratio": "0.5", "flag": "true", "mode": "B", "sizes": "1, 2", "type": "f16"}
    assert operation.bind(texts) == {
        "plain": "x",
        "number": 3,
        "ratio": 0.5,
        "flag": True,
        "mode": "b",
        "sizes": [1, 2],
        "type": irrun.ElementType.parse("f16"),
    }


def with_keywords(data, **attributes): ...
def with_dictionary(data, *, table: dict[str, int]): ...
def with_unknown_annotation(data, *, table: Nowhere): ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (np.negative, r"the kernel of Broken must be a function, found <ufunc 'negative'>"),
        (partial(with_keywords), r"the kernel of Broken must be a function, found functools\.partial"),
        (with_keywords, r"\*\*attributes is not supported, declare each attribute as a keyword-only parameter"),
        (with_dictionary, r"attribute table is annotated dict\[str, int\]; expected bool"),
        (with_unknown_annotation, "name 'Nowhere' is not defined"),
    ],
)
def test_invalid_kernel_is_reported_by_decorator(function, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        irrun.op("Broken", opset="custom")(function)
    assert registry.find("Broken", "custom") is None


def negate(data):
    return -data


def test_operations_of_a_model_take_precedence() -> None:
    replacement = Operation.from_function(negate, "Relu", since=1)
    for version in ("opset1", "opset8"):
        assert registry.find("Relu", version, operations=[replacement]) is replacement
    relu = registry.find("Relu", "opset1")
    assert relu is not None
    assert relu.category == "activation"


def test_operations_of_a_model_may_be_new() -> None:
    extension = Operation.from_function(negate, "Negate", opset="extension")
    assert registry.find("Negate", "extension", operations=[extension]) is extension
    assert registry.find("Negate", "extension") is None


def test_operation_of_a_model_adds_a_version() -> None:
    newer = Operation.from_function(negate, "Relu", since=20)
    assert registry.find("Relu", "opset20", operations=[newer]) is newer
    assert registry.find("Relu", "opset19", operations=[newer]) is registry.find("Relu", "opset19")


def test_registered_operation_replaces_that_of_irrun() -> None:
    """This also holds if irrun's own kernels of that type are not imported yet."""
    output = run_python("""
        import irrun

        @irrun.op("Relu", since=1)
        def relu(data):
            return -data

        from irrun.ops._support import registry
        from irrun.ops._support.autoload import load_all

        assert registry.find("Relu", "opset1").kernel is relu
        load_all()
        assert registry.find("Relu", "opset1").kernel is relu
        print(registry.find("Relu", "opset1").category)
    """)
    assert output == "extension"


def test_table_of_kernel_modules_is_complete() -> None:
    """If this fails, run `python tests/ops/kernel_table.py`."""
    command = [sys.executable, str(Path(__file__).parent / "kernel_table.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_compilation_imports_only_required_kernels(tmp_path) -> None:
    shape = "<dim>2</dim>"
    (tmp_path / "model.xml").write_text(
        f"""<net name="m" version="11"><layers>
            <layer id="0" name="x" type="Parameter" version="opset1"><data element_type="f32" shape="2"/>
                <output><port id="0" precision="FP32">{shape}</port></output></layer>
            <layer id="1" name="sum" type="Add" version="opset1"><input><port id="0"/><port id="1"/></input>
                <output><port id="2" precision="FP32">{shape}</port></output></layer>
            <layer id="2" name="product" type="MatMul" version="opset1"><input><port id="0"/><port id="1"/></input>
                <output><port id="2" precision="FP32"/></output></layer>
            <layer id="3" name="y" type="Result" version="opset1"><input><port id="0"/></input></layer>
        </layers><edges>
            <edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
            <edge from-layer="0" from-port="0" to-layer="1" to-port="1"/>
            <edge from-layer="1" from-port="2" to-layer="2" to-port="0"/>
            <edge from-layer="0" from-port="0" to-layer="2" to-port="1"/>
            <edge from-layer="2" from-port="2" to-layer="3" to-port="0"/>
        </edges></net>"""
    )
    output = run_python(f"""
        import sys
        import irrun
        from irrun.ops._support.autoload import list_kernel_modules

        model = irrun.compile_model({str(tmp_path / "model.xml")!r})
        assert model({{"x": [1.0, 2.0]}})[0] == 10
        kernels = {{f"irrun.ops.{{name}}" for name in list_kernel_modules()}}
        packages = {{name.rpartition(".")[0] for name in kernels}}
        print(sorted((kernels - packages) & sys.modules.keys()))
    """)
    assert output == "['irrun.ops.arithmetic.binary', 'irrun.ops.infrastructure.structure', 'irrun.ops.matrix']"


def test_kernel_is_accessible_after_import_of_irrun() -> None:
    output = run_python("""
        import irrun

        print(irrun.ops.movement.gather.gather_7.__qualname__)
    """)
    assert output == "gather_7"


def test_unknown_kernel_module_is_an_attribute_error() -> None:
    output = run_python("""
        import irrun

        print(hasattr(irrun.ops, "nothing"), hasattr(irrun.ops.movement, "nothing"))
    """)
    assert output == "False False"


@pytest.mark.parametrize("version", ["opset", "opset1", "opset999999999"])
def test_numbered_versions_are_found(version: str) -> None:
    assert registry.find("Relu", version) is not None


@pytest.mark.parametrize("version", ["opsetx", "opset1.5", "opset-1", "opset12345678901"])
def test_versions_that_are_not_numbers_are_not_found(version: str) -> None:
    assert registry.find("Relu", version) is None


def test_versions_of_operations_are_exclusive() -> None:
    for options in ({}, {"since": 1, "opset": "custom"}):
        with pytest.raises(TypeError, match=r"op\(\) requires either since= or opset="):
            irrun.op("Broken", **options)
        with pytest.raises(TypeError, match="an operation requires either since= or opset="):
            Operation.from_function(negate, "Broken", **options)


def test_registered_operations_are_found_beside_those_of_a_model() -> None:
    irrun.op("Negate", opset="custom")(negate)
    other = Operation.from_function(negate, "Other", opset="custom")
    registered = registry.find("Negate", "custom")
    assert registered is not None
    assert registry.find("Negate", "custom", operations=[other]) is registered
    assert registry.find("Negate", "unknown", operations=[other]) is registered
    assert registry.find("Negate", "opset1", operations=[other]) is registered
    assert registry.find("negate", "custom", operations=[other]) is None
    assert registry.find("Other", "opset1", operations=[other]) is other
    assert registry.find("Other", "custom") is None
    irrun.op("Negate", opset="another")(take_any)
    found = registry.find("Negate", "another", operations=[other])
    assert found is not None
    assert found.kernel is take_any
    assert registry.find("Relu", "custom") is None
    for version in ("extension", "experimental"):
        assert registry.find("Relu", version) is registry.find("Relu", "opset6")


def test_all_kernels_are_listed_without_being_used() -> None:
    code = "from irrun.ops._support.registry import list_operations; print(len(list(list_operations())) > 200)"
    assert run_python(code) == "True"


def test_registered_operation_of_an_instance_replaces_that_of_irrun() -> None:
    replacement = Operation.from_function(negate, "Relu", since=1)
    registry.register(replacement)
    assert registry.find("relu", "opset3") is replacement
    assert [str(o) for o in registry.list_operations()].count("Relu-1") == 1


@pytest.mark.parametrize("operations", [Operation.from_function(negate, "Negate", since=1), [negate], ["Negate"]])
def test_operations_of_a_model_must_be_a_list_of_operations(operations: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a list of operations|expected operations, found"):
        registry.find("Relu", "opset1", operations=operations)


def take_any(*inputs): ...
def take_arrays(first: np.ndarray, *inputs: np.ndarray): ...
def take_optional(first: np.ndarray, *inputs: np.ndarray | None): ...
def take_two(first, second=None): ...
def take_none(): ...


@pytest.mark.parametrize(
    ("function", "connected", "message"),
    [
        (take_any, [True, False, True], ""),
        (take_any, [], ""),
        (take_optional, [True, False, True], ""),
        (take_optional, [False, True], r"requires input 0 \(first\), but it is not connected"),
        (take_arrays, [True, True, True], ""),
        (take_arrays, [True], ""),
        (take_arrays, [True, False, True], r"requires input 1 \(inputs\), but it is not connected"),
        (take_arrays, [True, True, False], r"requires input 2 \(inputs\), but it is not connected"),
        (take_arrays, [], r"requires input 0 \(first\), but it is not connected"),
        (take_two, [True], ""),
        (take_two, [True, False], ""),
        (take_two, [True, True], ""),
        (take_two, [False, True], r"requires input 0 \(first\), but it is not connected"),
        (take_two, [True, True, True], "has 2 inputs, but 3 are connected"),
        (take_none, [], ""),
        (take_none, [True], "has 0 inputs, but 1 are connected"),
    ],
)
def test_inputs_of_a_layer_are_those_of_the_kernel(function, connected: list[bool], message: str) -> None:
    operation = Operation.from_function(function, "Any", opset="custom")
    if message:
        with pytest.raises(irrun.ModelError, match=f"^Any-custom {message}"):
            operation.check_inputs(connected)
    else:
        operation.check_inputs(connected)


@pytest.mark.parametrize("type", ["If", "Loop", "TensorIterator"])
def test_inputs_that_no_body_reads_may_be_unconnected(type: str) -> None:
    operation = registry.find(type, "opset8")
    assert operation is not None
    operation.check_inputs([True] * len(operation.inputs) + [False, True])


def with_attributes(
    data,
    *,
    number: int = 0,
    ratio: float = 0.0,
    flag: bool = False,
    sizes: list[int] = [],  # noqa: B006
    ratios: list[float] = [],  # noqa: B006
    mode: Literal["a", "b"] = "a",
    limit: int | None = None,
    type: irrun.ElementType | None = None,
    shape: irrun.PartialShape | None = None,
): ...


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("number", "7", 7),
        ("number", " -7 ", -7),
        ("number", "1e3", 1000),
        ("number", "-2.0", -2),
        ("number", str(2**64 - 1), 2**64 - 1),
        ("number", str(-(2**63)), -(2**63)),
        ("ratio", "1e-3", 1e-3),
        ("ratio", "inf", float("inf")),
        *[("flag", text, True) for text in ("true", "True", "1", "yes", "on", " ON ")],
        *[("flag", text, False) for text in ("false", "FALSE", "0", "no", "off")],
        ("sizes", "", []),
        ("sizes", " ", []),
        ("sizes", "1,-2, 3,", [1, -2, 3]),
        ("sizes", str(2**63 - 1), [2**63 - 1]),
        ("sizes", str(-(2**63)), [-(2**63)]),
        ("ratios", "1,0.5", [1.0, 0.5]),
        ("mode", "b", "b"),
        ("mode", " B ", "b"),
        ("limit", "", None),
        ("limit", " ", None),
        ("limit", "3", 3),
        ("type", "", None),
        ("type", "dynamic", None),
        ("type", "undefined", None),
        ("type", "u8", irrun.ElementType.parse("u8")),
        ("number", 3, 3),
        ("sizes", (1, 2), (1, 2)),
    ],
)
def test_attributes_are_converted(name: str, text: Any, expected: Any) -> None:
    operation = Operation.from_function(with_attributes, "Any", opset="custom")
    bound = operation.bind({name: text, "unknown": "x"})
    assert bound == {name: expected}
    assert type(bound[name]) is type(expected)
    assert operation.find_unknown({name: text, "unknown": "x"}) == ["unknown"]
    assert list(operation.find_invalid_attributes({name: text})) == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("number", "x", "'x' is not a number, expected int"),
        ("number", "1.5", "not an integer, expected int"),
        ("number", "inf", "not an integer, expected int"),
        ("number", str(2**64), "not a 64-bit integer, expected int"),
        ("number", str(-(2**63) - 1), "not a 64-bit integer, expected int"),
        ("number", "1e30", "not a 64-bit integer, expected int"),
        ("ratio", "x", "'x' is not a number, expected float"),
        ("flag", "2", "not a boolean, expected bool"),
        ("flag", "", "not a boolean, expected bool"),
        ("sizes", "1,x", "'x' is not a number, expected list of int"),
        ("sizes", f"1,{2**63}", "not signed 64-bit integers, expected list of int"),
        ("sizes", str(-(2**63) - 1), "not a 64-bit integer, expected list of int"),
        ("mode", "c", "unknown value, expected one of 'a', 'b'"),
        ("mode", "", "unknown value, expected one of 'a', 'b'"),
        ("limit", "x", "'x' is not a number, expected int (optional)"),
        ("type", "f99", "unknown element type 'f99', expected element type (optional)"),
    ],
)
def test_invalid_attributes_are_refused(name: str, text: str, message: str) -> None:
    operation = Operation.from_function(with_attributes, "Any", opset="custom")
    with pytest.raises(irrun.ModelError) as error:
        operation.bind({name: text})
    assert error.value.message == f"attribute {name}={text!r} of Any-custom: {message}"
    assert list(operation.find_invalid_attributes({name: text})) == [error.value.message]


def test_missing_and_misspelled_attributes_are_reported_together() -> None:
    def kernel(data, *, window: int, pads_begin: list[int], axis: int = 0): ...

    operation = Operation.from_function(kernel, "Any", opset="custom")
    with pytest.raises(irrun.ModelError, match=r"^Any-custom requires the attribute pads_begin, window$"):
        operation.bind({})
    with pytest.raises(irrun.ModelError, match=r"^Any-custom requires the attribute pads_begin \(found pad_begin\)$"):
        operation.bind({"window": "1", "pad_begin": "0"})
    assert operation.find_misspelled({"window": "1", "pad_begin": "0", "colour": "red"}) == {"pad_begin": "pads_begin"}
    assert list(operation.find_invalid_attributes({"pads-begin": "x", "axes": "1"})) == [
        "attribute pads-begin='x' of Any-custom: 'x' is not a number, expected list of int",
        "Any-custom does not have the attribute axes; did you mean axis?",
        "Any-custom requires the attribute window",
    ]
    assert operation.bind({"op.window": "1", "pads-begin": "2"}) == {"window": 1, "pads_begin": [2]}


def test_bound_lists_are_independent() -> None:
    operation = Operation.from_function(with_attributes, "Any", opset="custom")
    first = operation.bind({"sizes": "1,2"})
    first["sizes"].append(3)
    assert operation.bind({"sizes": "1,2"}) == {"sizes": [1, 2]}


def test_a_numbered_opset_is_not_the_name_of_another_one() -> None:
    with pytest.raises(TypeError, match="opset7 is a numbered opset, expected since=7"):
        irrun.op("Gelu", opset="opset7")(lambda x: x)
    with pytest.raises(TypeError, match="opset12 is a numbered opset, expected since=12"):
        Operation.from_function(lambda x: x, "Gelu", opset="opset12")
    assert Operation.from_function(lambda x: x, "Gelu", opset="opset_of_mine").opset == "opset_of_mine"


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (int, "int"),
        (bool, "bool"),
        (str | None, "str (optional)"),
        (list[float], "list of float"),
        (list[int] | None, "list of int (optional)"),
        (Literal["a", "b"], "one of 'a', 'b'"),
        (Literal["a"] | None, "one of 'a' (optional)"),
        (ElementType | None, "element type (optional)"),
        (PartialShape, "shape"),
    ],
    ids=str,
)
def test_types_of_attributes_are_named(annotation: Any, name: str) -> None:
    attribute = Attribute("name", annotation)
    assert attribute.type_name == name
    assert attribute.is_supported


@pytest.mark.parametrize("annotation", [dict, list[dict], complex | None, tuple[int]], ids=str)
def test_texts_are_not_converted_to_other_types(annotation: Any) -> None:
    assert not Attribute("name", annotation).is_supported
