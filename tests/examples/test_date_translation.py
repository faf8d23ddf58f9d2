"""The example of date translation: its results, agreement with OpenVINO, and the size of its files."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

import irrun

FOLDER = Path(__file__).parents[2] / "examples" / "date_translation"
DATES = {
    "3 May 2026": "2026-05-03",
    "may 3rd, 26": "2026-05-03",
    "03.05.2026": "2026-05-03",
    "05/03/2026": "2026-05-03",
    "2026-05-03": "2026-05-03",
    "20260503": "2026-05-03",
    "Sunday, the 3rd of May, 2026": "2026-05-03",
    "1. 2. '99": "1999-02-01",
    "SEPT. 30 1987": "1987-09-30",
    "mon 31 dec 68": "2068-12-31",
    "22-aug-1905": "1905-08-22",
    "2000, February 29th": "2000-02-29",
    "Nov 11 2011": "2011-11-11",
    "7/14/72": "1972-07-14",
}


@pytest.fixture(scope="module")
def compiled() -> irrun.CompiledModel:
    return irrun.compile_model(FOLDER / "model.xml")


def encode(texts: list[str]) -> np.ndarray:
    longest = max(map(len, texts))
    return np.array([list(text.encode().ljust(longest, b"\0")) for text in texts], np.int32)


def decode(beam: np.ndarray) -> str:
    vocabulary = etree.parse(FOLDER / "model.xml").find("rt_info/date_translation/vocabulary").get("value")
    return "".join(vocabulary[token] for token in beam if token < len(vocabulary))


def test_best_beams_are_correct_dates(compiled):
    outputs = compiled({"text": encode(list(DATES))})
    assert [decode(beams[0]) for beams in outputs["beams"]] == list(DATES.values())
    assert np.all(np.exp(outputs["scores"][:, 0]) > 0.9)
    assert np.all(np.diff(outputs["scores"]) <= 0)


def test_result_of_text_does_not_depend_on_batch(compiled):
    together = compiled({"text": encode(list(DATES))})
    for index, text in enumerate(DATES):
        alone = compiled({"text": encode([text])})
        np.testing.assert_array_equal(alone["beams"][0, 0], together["beams"][index, 0])
        np.testing.assert_allclose(alone["scores"][0, 0], together["scores"][index, 0], atol=1e-5)


def test_best_beams_cover_alternatives_of_illegible_character(compiled):
    outputs = compiled({"text": encode(["3 Ju? 2026"])})
    assert {decode(beam) for beam in outputs["beams"][0, :2]} == {"2026-06-03", "2026-07-03"}
    assert np.all(np.exp(outputs["scores"][0, :2]) > 0.2)


def test_beams_agree_with_openvino(compiled):
    openvino = pytest.importorskip("openvino")
    illegible = ["?/13/2026", "1? March 81", "Ma? 2nd, 2020", "0?.12.1999", "2026-1?-01"]
    texts = encode([*DATES, *illegible])
    expected = openvino.compile_model(FOLDER / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"text": texts})
    outputs = compiled({"text": texts})
    np.testing.assert_allclose(outputs["scores"], expected["scores"], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(outputs["beams"], expected["beams"])


def test_translate_prints_the_best_beam_first(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["translate.py", "may", "3rd,", "26"])
    runpy.run_path(str(FOLDER / "translate.py"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("2026-05-03")
    assert len(lines) == 4


def test_example_input_is_translated(compiled):
    outputs = compiled(np.load(FOLDER / "input.npy"))
    assert [decode(beams[0]) for beams in outputs["beams"]] == ["2026-05-03"] * 3


def test_files_are_small():
    assert sum((FOLDER / name).stat().st_size for name in ("model.xml", "model.bin", "input.npy")) < 2_000_000
