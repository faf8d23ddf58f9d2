"""Programs that import `openvino` and run unchanged, each in a process of its own."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from irrun.openvino.__main__ import main

ROOT = Path(__file__).parents[2]

CLASSIFICATION = """
import sys
import numpy as np
import openvino as ov

model_path, image_path, device = sys.argv[1:]
core = ov.Core()
model = core.read_model(model_path)
if len(model.inputs) != 1:
    sys.exit(-1)
image = np.load(image_path)
input_tensor = np.expand_dims(image, 0)
ppp = ov.preprocess.PrePostProcessor(model)
_, h, w, _ = input_tensor.shape
ppp.input().tensor().set_shape(input_tensor.shape).set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
ppp.input().preprocess().resize(ov.preprocess.ResizeAlgorithm.RESIZE_LINEAR)
ppp.input().model().set_layout(ov.Layout("NCHW"))
ppp.output(0).tensor().set_element_type(ov.Type.f32)
model = ppp.build()
compiled_model = core.compile_model(model, device)
results = compiled_model.infer_new_request({0: input_tensor})
predictions = next(iter(results.values()))
probs = predictions.reshape(-1)
for class_id in np.argsort(probs)[-3:][::-1]:
    print(class_id, f"{probs[class_id]:.3f}")
"""

RESHAPE = """
import sys
import numpy as np
import openvino as ov

core = ov.Core()
model = core.read_model(sys.argv[1])
image = np.load(sys.argv[2]).astype(np.float32)
n, h, w, c = np.expand_dims(image, 0).shape
model.reshape({model.input().get_any_name(): ov.PartialShape((n, c, h, w))})
ppp = ov.preprocess.PrePostProcessor(model)
ppp.input().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
ppp.input().model().set_layout(ov.Layout("NCHW"))
ppp.output(0).tensor().set_element_type(ov.Type.f32)
model = ppp.build()
compiled_model = core.compile_model(model, sys.argv[3])
results = compiled_model.infer_new_request({0: np.expand_dims(image, 0).astype(np.uint8)})
predictions = next(iter(results.values()))
print(model.output(0).partial_shape, predictions.shape, f"{predictions.sum():.3f}")
"""

ASYNC = """
import sys
import numpy as np
import openvino as ov

def completion_callback(infer_request: ov.InferRequest, image_path: str) -> None:
    predictions = next(iter(infer_request.results.values()))
    results[image_path] = predictions.reshape(-1).argmax()

results = {}
core = ov.Core()
model = core.read_model(sys.argv[1])
image = np.load(sys.argv[2])
images = [np.expand_dims(np.roll(image, i, 1), 0) for i in range(6)]
ppp = ov.preprocess.PrePostProcessor(model)
ppp.input().tensor().set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
ppp.input().model().set_layout(ov.Layout("NCHW"))
ppp.input().tensor().set_shape(images[0].shape)
ppp.input().preprocess().resize(ov.preprocess.ResizeAlgorithm.RESIZE_LINEAR)
ppp.output(0).tensor().set_element_type(ov.Type.f32)
model = ppp.build()
compiled_model = core.compile_model(model, sys.argv[3])
infer_queue = ov.AsyncInferQueue(compiled_model, len(images))
infer_queue.set_callback(completion_callback)
for i, input_tensor in enumerate(images):
    infer_queue.start_async({0: input_tensor}, f"image{i}")
infer_queue.wait_all()
print(sorted(results.items()))
"""

MODEL_CREATION = """
import sys
import numpy as np
import openvino as ov
from openvino import op, opset1
from openvino import opset8
from openvino.utils.types import get_dtype

rng = np.random.default_rng(0)
input_shape = [2, 1, 12, 12]
param_node = op.Parameter(ov.Type.f32, ov.Shape(input_shape))
conv_weights = op.Constant(rng.random((4, 1, 5, 5), np.float32))
pads = {"pads_begin": [0, 0], "pads_end": [0, 0]}
conv = opset1.convolution(param_node, conv_weights, strides=[1, 1], dilations=[1, 1], **pads)
bias = op.Constant(rng.random((1, 4, 1, 1), np.float32))
add = opset1.add(conv.output(0), bias.output(0))
pool = opset1.max_pool(add, [2, 2], [0, 0], [0, 0], [2, 2], "ceil", None)
shape = op.Constant(np.array([2, -1], dtype=np.int64))
flat = opset1.reshape(pool, shape, True)
weights = op.Constant(rng.random((10, 64), np.float32))
matmul = opset1.matmul(flat, weights, transpose_a=False, transpose_b=True)
soft_max = opset1.softmax(matmul, axis=1)
model = ov.Model(soft_max, [param_node], "lenet")
assert get_dtype(model.output().element_type) == np.float32
ov.set_batch
compiled = ov.Core().compile_model(model, sys.argv[3], {"INFERENCE_PRECISION_HINT": "f32"})
result = compiled(rng.random(input_shape).astype(np.float32))[0]
print(model.output().partial_shape, np.round(result.sum(axis=1), 3).tolist(), result.argmax(axis=1).tolist())
"""

PROGRAMS = {"classification": CLASSIFICATION, "reshape": RESHAPE, "async": ASYNC, "creation": MODEL_CREATION}

BENCHMARK = """
import sys
from openvino.tools.benchmark.main import main
sys.exit(main())
"""


def run(arguments: list[str], folder: Path) -> str:
    """Run Python with arguments, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


TOKENIZERS = """
import numpy as np
import openvino as ov
from openvino_tokenizers import connect_models, convert_tokenizer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

letters = sorted(pre_tokenizers.ByteLevel.alphabet())
words = ["once", "upon", "a", "time", "cat", "##s", "!", "12", "on", "##ce"]
bpe = Tokenizer(models.BPE({t: i for i, t in enumerate(["</s>", *letters, "on", "ce", "once"])},
                           [("o", "n"), ("c", "e"), ("on", "ce")]))
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
pieces = Tokenizer(models.WordPiece({t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])},
                                    unk_token="[UNK]"))
pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
pieces.decoder = decoders.WordPiece()
pieces.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("<pad>", 0.0), *((t, -1.0 - i / 7) for i, t in enumerate(words)),
                                    ("\\u2581", -2.0), ("\\u2581once", -1.5)], 0))
unigram.pre_tokenizer = pre_tokenizers.Metaspace()
unigram.decoder = decoders.Metaspace()
tokenizers = [
    PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="</s>", pad_token="</s>"),
    PreTrainedTokenizerFast(tokenizer_object=pieces, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
                            sep_token="[SEP]", model_max_length=16),
    PreTrainedTokenizerFast(tokenizer_object=unigram, unk_token="<unk>", pad_token="<pad>"),
]
texts = ["once upon a time", "cats!", "12 onceonce"]
for tokenizer in tokenizers:
    encoder, decoder = convert_tokenizer(tokenizer, with_detokenizer=True)
    print([(output.any_name, output.element_type, output.partial_shape) for output in encoder.outputs])
    graph = [op for op in encoder.get_ops() if op.get_type_info().version_id == "extension"]
    print([(op.get_type_name(), op.get_output_size()) for op in graph])
    tokens = ov.compile_model(encoder, "CPU")(texts)
    assert tokens["input_ids"].tolist() == tokenizer(texts, padding=True)["input_ids"]
    print({name: tokens[name].tolist() for name in ("input_ids", "attention_mask")})
    print(ov.Core().compile_model(decoder, "CPU")(tokens["input_ids"])["string_output"].tolist())
pairs = convert_tokenizer(tokenizers[1], number_of_inputs=2)
print(ov.compile_model(pairs, "CPU")([np.array(["once"]), np.array(["cats"])])["input_ids"].tolist())
ids, mask = (ov.opset13.parameter(ov.PartialShape([-1, -1]), ov.Type.i64) for _ in range(2))
ids.output(0).set_names({"input_ids"})
mask.output(0).set_names({"attention_mask"})
sums = ov.opset13.reduce_sum(ids * mask, np.array([1]), False)
connected = connect_models(convert_tokenizer(tokenizers[0]), ov.Model([sums], [ids, mask], "sums"))
print([i.partial_shape for i in connected.inputs], connected.output().partial_shape)
"""


def test_tokenizers_are_converted_to_the_same_models(tmp_path: Path, oracle: object) -> None:
    for package in ("openvino_tokenizers", "transformers", "tokenizers"):
        pytest.importorskip(package)
    script = tmp_path / "program.py"
    script.write_text(TOKENIZERS, encoding="utf-8")
    actual, expected = run_on_both(script, [], tmp_path)
    assert actual == expected
    assert "onceonce" in actual


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """Write an image of 12 by 16 pixels."""
    path = tmp_path / "image.npy"
    np.save(path, np.random.default_rng(3).integers(0, 256, (12, 16, 3)).astype(np.uint8))
    return path


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_the_same(name: str, classifier: Path, picture: Path, tmp_path: Path, oracle: object) -> None:
    script = tmp_path / f"{name}.py"
    # Where processes are started by importing the main module, OpenVINO's telemetry would run the program again.
    script.write_text('if __name__ == "__main__":\n' + textwrap.indent(PROGRAMS[name], "    "), encoding="utf-8")
    arguments = [str(script), str(classifier), str(picture), "CPU"]
    actual = run(["-m", "irrun.openvino", "--replace", *arguments], tmp_path)
    assert actual
    assert actual == run(arguments, tmp_path)


@pytest.mark.parametrize("api", ["sync", "async"])
def test_benchmark_app_runs(api: str, classifier: Path, tmp_path: Path) -> None:
    specification = importlib.util.find_spec("openvino")
    if specification is None or not list(Path(specification.submodule_search_locations[0]).glob("tools/benchmark")):
        pytest.skip("the benchmark of OpenVINO is not installed")
    script = tmp_path / "benchmark.py"
    script.write_text(BENCHMARK, encoding="utf-8")
    arguments = ["-m", str(classifier), "-niter", "8", "-api", api, "-d", "CPU", "-hint", "none"]
    output = run(["-m", "irrun.openvino", "--replace", str(script), *arguments], tmp_path)
    assert "Throughput:" in output
    assert "8 iterations" in output


def test_installed_openvino_is_not_replaced_silently(oracle: object, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import openvino", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "irrun.openvino", str(script)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 2
    assert "--replace" in done.stderr
    program = "import irrun\ntry:\n    irrun.install_as_openvino()\nexcept RuntimeError as error:\n    print(error)"
    assert "openvino is installed" in run(["-c", program], tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["--help"], 0), (["-h"], 0), (["--replace"], 2), (["--replace", "--help"], 0)]
)
def test_usage_is_printed(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == code
    assert capsys.readouterr().out.startswith("usage: python -m irrun.openvino [--replace] (script.py | -m module)")


def test_submodules_are_shared(tmp_path: Path) -> None:
    program = """
import irrun
irrun.install_as_openvino(replace=True)
import importlib.metadata, importlib.util
import openvino as ov, irrun.openvino
import openvino.runtime as rt, openvino.properties.hint as hints, openvino.opset8 as opset8
from openvino.runtime import Core, opset9, PartialShape
from openvino.preprocess import PrePostProcessor
from openvino.inference_engine import IECore
from openvino.runtime.passes import Manager
assert ov is irrun.openvino and Core is irrun.openvino.Core
assert PrePostProcessor is irrun.openvino.preprocess.PrePostProcessor
assert hints is irrun.openvino.properties.hint and opset8 is irrun.openvino.opset8
assert IECore is irrun.openvino.inference_engine.IECore
assert importlib.util.find_spec("openvino") is not None
assert importlib.metadata.version("openvino").startswith("2026.")
assert ov.__version__ == ov.get_version()
print("done")
"""
    assert run(["-c", program], tmp_path) == "done\n"


def test_irrun_does_not_import_its_replacement_for_openvino(tmp_path: Path) -> None:
    program = "import sys, irrun; irrun.compile_model; print([n for n in sys.modules if 'openvino' in n])"
    assert run(["-c", program], tmp_path) == "[]\n"


CLASSIFIER_OF_MODEL_API = """
import sys
import numpy as np
import openvino as ov
from model_api.models import ClassificationModel

model = ov.Core().read_model(sys.argv[1])
model.set_rt_info("Classification", ["model_info", "model_type"])
model.set_rt_info("a b c d e", ["model_info", "labels"])
while len(model.outputs) > 1:
    model.remove_result(model.get_results()[-1])
ov.save_model(model, "wrapped.xml", compress_to_fp16=False)
wrapped = ClassificationModel.create_model("wrapped.xml", preload=True, device="CPU")
print(wrapped(np.load(sys.argv[2])))
"""

DETECTOR_OF_MODEL_API = """
import sys
import numpy as np
from model_api.models import DetectionModel

configuration = {"confidence_threshold": 0.3}
model = DetectionModel.create_model(sys.argv[1], model_type="ssd", preload=True, configuration=configuration)
result = model(np.load(sys.argv[2]))
print([[*box, float(score)] for box, score in zip(result.bboxes.tolist(), result.scores)])
"""


def run_on_both(script: Path, arguments: list[str], folder: Path) -> list[str]:
    """Run a program on the replacement of OpenVINO and on OpenVINO, and return what they print."""
    commands = (["-m", "irrun.openvino", "--replace", str(script)], [str(script)])
    return [run([*command, *arguments], folder) for command in commands]


@pytest.mark.slow
def test_classifier_of_model_api_runs(classifier: Path, picture: Path, tmp_path: Path) -> None:
    pytest.importorskip("model_api")
    pytest.importorskip("cv2")
    script = tmp_path / "program.py"
    script.write_text(CLASSIFIER_OF_MODEL_API, encoding="utf-8")
    actual, expected = run_on_both(script, [str(classifier), str(picture)], tmp_path)
    assert actual == expected
    assert "(" in actual


@pytest.mark.slow
def test_detector_of_model_api_runs(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("model_api")
    pytest.importorskip("cv2")
    folder = data / "face-detection-retail-0004"
    image = np.load(folder / "input.npy")[0].transpose(1, 2, 0)
    np.save(tmp_path / "image.npy", np.clip(image, 0, 255).astype(np.uint8))
    script = tmp_path / "program.py"
    script.write_text(DETECTOR_OF_MODEL_API, encoding="utf-8")
    arguments = [str(folder / "ir11" / "model.xml"), str(tmp_path / "image.npy")]
    actual, expected = (ast.literal_eval(text) for text in run_on_both(script, arguments, tmp_path))
    np.testing.assert_allclose(actual, expected, atol=2)  # OpenVINO may compute in bf16


EXPORT_OF_LANGUAGE_MODEL = """
import torch
import transformers
from optimum.intel import OVModelForCausalLM

torch.manual_seed(0)
sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, vocab_size=200)
tokens = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0)
config = transformers.{name}Config(num_key_value_heads=2, max_position_embeddings=128, **sizes, **tokens)
transformers.{name}ForCausalLM(config).save_pretrained("source")
OVModelForCausalLM.from_pretrained("source", export=True).save_pretrained("exported")
"""

GENERATION = """
import torch
from optimum.intel import OVModelForCausalLM

model = OVModelForCausalLM.from_pretrained("exported", ov_config={"INFERENCE_PRECISION_HINT": "f32"})
ids = torch.tensor([[0, 9, 23, 77, 41], [8, 1, 90, 13, 12]])
options = dict(attention_mask=(ids != 0).long(), max_new_tokens=12, min_new_tokens=12, do_sample=False)
print([model.generate(ids, num_beams=beams, **options).tolist() for beams in (1, 3)])
"""

EXPORT_OF_DETECTOR = """
import torch
from ultralytics import YOLO

torch.manual_seed(0)
model = YOLO("yolov8n.yaml")
network = model.model.train()
with torch.no_grad():
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None  # the average of the batches, so that activations are normalized
    network(torch.rand(4, 3, 64, 64))
    network.eval()
    for boxes, classes in zip(network.model[-1].cv2, network.model[-1].cv3):
        torch.nn.init.normal_(boxes[-1].weight, std=0.1)
        torch.nn.init.normal_(classes[-1].weight, std=0.004)
        torch.nn.init.constant_(classes[-1].bias, -1.5)
model.export(format="openvino", imgsz=64)
"""

DETECTION = """
import functools
import numpy as np
import openvino as ov
from ultralytics import YOLO

compile_model = ov.Core.compile_model

@functools.wraps(compile_model)
def compile_in_f32(core, model, device_name, config):
    return compile_model(core, model, device_name, {**config, "INFERENCE_PRECISION_HINT": "f32"})

ov.Core.compile_model = compile_in_f32  # ultralytics leaves the precision to the device
model = YOLO("yolov8n_openvino_model", task="detect")
image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
print([model.predict(i, imgsz=64, verbose=False)[0].boxes.data.tolist() for i in (image, image[::-1])])
"""


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep libraries from downloading, and their settings in the temporary folder."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("YOLO_OFFLINE", "1")
    monkeypatch.setenv("YOLO_AUTOINSTALL", "0")
    monkeypatch.setenv("YOLO_CONFIG_DIR", str(tmp_path / "settings"))


def run_on_export(exporter: str, program: str, folder: Path) -> list[list[list[list[float]]]]:
    """Export a model with OpenVINO, and return the last line that a program prints on irrun and on OpenVINO."""
    (folder / "export.py").write_text(exporter, encoding="utf-8")
    (folder / "program.py").write_text(program, encoding="utf-8")
    run(["export.py"], folder)
    outputs = run_on_both(folder / "program.py", [], folder)
    return [ast.literal_eval(output.splitlines()[-1]) for output in outputs]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Llama", "Qwen2"])
def test_language_model_of_optimum_generates_the_same(name: str, offline: None, tmp_path: Path, oracle: object) -> None:
    pytest.importorskip("optimum.intel")
    exporter = EXPORT_OF_LANGUAGE_MODEL.replace("{name}", name)
    actual, expected = run_on_export(exporter, GENERATION, tmp_path)
    assert actual == expected
    assert np.shape(actual) == (2, 2, 17)


@pytest.mark.slow
def test_detector_of_ultralytics_finds_the_same(offline: None, tmp_path: Path, oracle: object) -> None:
    pytest.importorskip("ultralytics")
    actual, expected = run_on_export(EXPORT_OF_DETECTOR, DETECTION, tmp_path)
    assert [len(boxes) for boxes in actual] == [len(boxes) for boxes in expected]
    for boxes, expected_boxes in zip(actual, expected, strict=True):
        assert boxes
        np.testing.assert_allclose(boxes, expected_boxes, rtol=1e-3, atol=1e-2)


CODE = (
    "import sys\nprint(__name__, globals().get('__file__'), sys.argv, sys.modules['__main__'].__dict__ is globals())\n_"
)


@pytest.mark.parametrize("arguments", [("script.py", "x"), ("-c", CODE, "x"), ("-", "x")])
def test_scripts_run_as_the_main_module(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(CODE, encoding="utf-8")
    outputs = []
    for options in ([], ["-m", "irrun.openvino", "--replace"]):
        done = subprocess.run(
            [sys.executable, *options, *arguments],
            input=CODE if arguments[0] == "-" else "",
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        outputs.append((done.returncode, done.stdout, done.stderr.splitlines()[-1]))
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "cannot read missing.py: No such file or directory"),
        (["."], "cannot read .: Is a directory"),
        (["-m", "missing_module.part"], "there is no module missing_module.part"),
        (["-c"], "expected code after -c"),
    ],
)
def test_programs_that_do_not_exist(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "irrun.openvino", "--replace", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, f"python -m irrun.openvino: {message}\n")
