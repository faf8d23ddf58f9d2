"""PyTorch modules as references. A minimal stand-in has the hooks that PyTorch documents."""

from __future__ import annotations

import contextlib
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest

import irrun
from inspection.graphs import Row, make_model
from irrun.inspection import compare
from irrun.inspection.torch_reference import _list_tensors, is_torch

W1 = np.float32([[1, 0.5], [0.25, -1]])
W2 = np.float32([[0.5, 0.25], [1, -0.5]])
X = np.float32([[0.3, -0.6], [1.5, 0.2]])


class Tensor:
    def __init__(self, array, dtype="torch.float32"):
        self.array, self.dtype = array, dtype

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.array)

    def numpy(self):
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.array


class Module:
    """What the reference uses of torch.nn.Module."""

    training = False

    def __init__(self, function, **children):
        self.function, self.children, self.hooks = function, children, {}

    def __call__(self, *args, **kwargs):
        output = self.forward(*args, **kwargs)
        for hook in list(self.hooks.values()):
            hook(self, args, output)
        return output

    def forward(self, x):
        return self.function(self, x)

    def register_forward_hook(self, hook):
        key = object()
        self.hooks[key] = hook
        return types.SimpleNamespace(remove=lambda: self.hooks.pop(key))

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)


def make_linear(weights, bias):
    return Module(lambda self, x: Tensor(x.array @ weights + np.float32(bias)))


def make_module(bias=0.5, **changes):
    relu = Module(lambda self, x: Tensor(np.maximum(x.array, 0)))
    block = Module(lambda self, x: self.children["1"](self.children["0"](x)), **{"0": make_linear(W1, bias), "1": relu})
    children = {"block": block, "head": make_linear(W2, -0.25), **changes}
    return Module(lambda self, x: self.children["head"](self.children["block"](x)), **children)


def make_network(bias=0.5):
    first, last = "__module.block.0/aten::linear/", "__module.head/aten::linear/"
    return make_model(
        Row("x", "Parameter"),
        Row("w1", "Constant", value=W1),
        Row("b1", "Constant", value=np.float32([[bias, 0.5]])),
        Row("w2", "Constant", value=W2),
        Row("b2", "Constant", value=np.float32([[-0.25]])),
        Row(first + "MatMul", "MatMul", ["x", "w1"]),
        Row(first + "Add", "Add", [first + "MatMul", "b1"]),
        Row("__module.block.1/aten::relu/Relu", "Relu", [first + "Add"]),
        Row(last + "MatMul", "MatMul", ["__module.block.1/aten::relu/Relu", "w2"]),
        Row(last + "Add", "Add", [last + "MatMul", "b2"]),
        Row("y", "Result", [last + "Add"]),
    )


@pytest.fixture
def torch(monkeypatch):
    module = types.SimpleNamespace(from_numpy=Tensor, no_grad=contextlib.nullcontext)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def test_modules_are_matched_by_their_names(torch):
    module = make_module()
    result = compare(make_network(), module, X)
    assert result.agrees
    assert [layer.name for layer in result.layers] == [
        "__module.block.0/aten::linear/Add",
        "__module.block.1/aten::relu/Relu",
        "__module.head/aten::linear/Add",
    ]
    assert result.reference == "PyTorch (Module)"
    assert not any(part.hooks for _, part in module.named_modules())


def test_layer_that_differs_from_its_module_is_named(torch):
    result = compare(make_network(0.6), make_module(), X)
    assert result.outcome == "differs"
    assert [layer.name for layer in result.causes] == ["__module.block.0/aten::linear/Add"]


def test_modules_that_run_twice_are_left_out(torch):
    module = make_module()
    module.function = lambda self, x: (self.children["block"](x), self.children["head"](self.children["block"](x)))[1]
    result = compare(make_network(), module, X)
    assert [layer.name for layer in result.layers] == ["__module.head/aten::linear/Add"]
    assert result.agrees


def test_sessions_run_the_module_again(torch):
    result = compare(make_network(), make_module(), sequence=[X, X + 1])
    assert (result.agrees, result.runs) == (True, 2)


def test_outputs_of_exported_programs_are_compared(torch, monkeypatch):
    flat = Module(make_module().function, **make_module().children)
    monkeypatch.setattr(flat, "named_modules", lambda: iter([("", flat)]))
    program = types.SimpleNamespace(graph_signature=None, module=lambda: flat)
    assert compare(make_network(), program, X).outputs[0].agrees
    assert not compare(make_network(0.6), program, X).agrees


def test_bfloat16_and_training_mode_are_handled(torch):
    def run(self, x):
        return Tensor(self.children["head"](self.children["block"](x)).array, "torch.bfloat16")

    module = make_module()
    module.function, module.training = run, True
    result = compare(make_network(), module, X)
    assert result.agrees
    assert "the PyTorch module is in training mode; call eval() for inference mode" in result.notes


def test_modules_that_fail_are_reported(torch):
    def divide(self, x):
        return 1 / 0

    module = make_module(head=Module(divide))
    with pytest.raises(irrun.ExecutionError, match="the PyTorch module cannot run the inputs: division by zero"):
        compare(make_network(), module, X)
    assert not any(part.hooks for _, part in module.named_modules())


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(irrun.InputError, match="requires PyTorch: pip install torch"):
        compare(make_network(), make_module(), X)


def test_only_programs_with_a_signature_are_exported_programs():
    assert not is_torch(SimpleNamespace(module=lambda: None))
    assert not is_torch(SimpleNamespace(graph_signature=None))
    assert is_torch(SimpleNamespace(module=lambda: None, graph_signature=None))


def test_tensors_of_nested_outputs_are_listed_in_order():
    a, b, c = (Tensor(np.float32([n])) for n in range(3))
    assert _list_tensors(a) == [a]
    assert _list_tensors((a, [b, None, "text"], {"last": c})) == [a, b, c]
    assert _list_tensors({"first": (a,), "second": b}) == [a, b]
    assert _list_tensors(None) == []
    assert _list_tensors("text") == []
