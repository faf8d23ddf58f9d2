"""PyTorch modules that `convert_model` converts."""

from __future__ import annotations

import numpy as np
import pytest

import irrun.openvino as ov

torch = pytest.importorskip("torch")


class Network(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(3, 4, 3)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, image, scale=None):
        result = self.linear(self.convolution(image).relu().mean((2, 3)))
        return result if scale is None else result * scale


def check(model, module, *inputs):
    results = ov.Core().compile_model(model, "CPU")([x.numpy() for x in inputs])
    with torch.no_grad():
        np.testing.assert_allclose(results[0], module(*inputs).numpy(), rtol=1e-5, atol=1e-6)


def test_modules_are_converted():
    module, image, scale = Network(), torch.rand(1, 3, 8, 8), torch.tensor([2.0])
    model = ov.convert_model(module, example_input=image)
    assert [port.get_any_name() for port in model.inputs] == ["image"]
    assert str(model.inputs[0].partial_shape) == "[?,?,?,?]"
    check(model, module, torch.rand(3, 3, 12, 9))
    for example in ((image, scale), {"scale": scale, "image": image}, {"scale": scale.numpy(), "image": image}):
        model = ov.convert_model(module, example_input=example)
        assert [port.get_any_name() for port in model.inputs] == ["image", "scale"]
        check(model, module, image, scale)
    assert module.training
    model = ov.convert_model(module, example_input=image, input=[2, 3, 8, 8])
    assert list(model.inputs[0].shape) == [2, 3, 8, 8]


def test_recurrent_modules_are_converted():
    module, x = torch.nn.LSTM(3, 4, bidirectional=True), torch.rand(5, 2, 3)
    results = ov.Core().compile_model(ov.convert_model(module, example_input=x), "CPU")(x.numpy())
    with torch.no_grad():
        np.testing.assert_allclose(results[0], module(x)[0].numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["one", "several", "keyword"])
def test_exported_programs_are_converted(kind):
    module, image, scale = Network().eval(), torch.rand(1, 3, 8, 8), torch.tensor([2.0])
    arguments = (image, scale) if kind == "several" else (image,)
    program = torch.export.export(module, arguments, {"scale": scale} if kind == "keyword" else {})
    model = ov.convert_model(program)
    assert [port.get_any_name() for port in model.inputs] == ["image", "scale"][: 1 if kind == "one" else 2]
    check(model, module, image, *([] if kind == "one" else [scale]))


class Unused(torch.nn.Module):  # type: ignore[name-defined]
    def forward(self, tokens, mask=None, bias=None):
        return tokens * 2.0 if bias is None else tokens + bias


def test_inputs_that_a_module_does_not_use_are_kept():
    tokens, mask, bias = torch.ones(1, 4), torch.ones(1, 4, dtype=torch.int64), torch.ones(1, 4)
    program = torch.export.export(Unused(), (tokens,), {"mask": mask})
    for module, example in ((Unused(), {"mask": mask, "tokens": tokens}), (Unused(), (tokens, mask)), (program, None)):
        model = ov.convert_model(module, example_input=example)
        described = [(port.get_any_name(), str(port.partial_shape), port.element_type) for port in model.inputs]
        assert described == [("tokens", "[?,?]", ov.Type.f32), ("mask", "[?,?]", ov.Type.i64)]
        check(model, Unused(), tokens, mask)
    model = ov.convert_model(Unused(), example_input=(tokens, mask, bias), input=[[1, 4], [1, 4], [1, 4]])
    assert [port.get_any_name() for port in model.inputs] == ["tokens", "mask", "bias"]


def test_modules_that_cannot_be_converted_are_errors():
    with pytest.raises(RuntimeError, match="needs example_input"):
        ov.convert_model(Network())
    with pytest.raises(RuntimeError, match="PyTorch cannot export the module to ONNX"):
        ov.convert_model(Network(), example_input=torch.rand(1, 5, 8, 8))
