"""Real models produce the outputs of OpenVINO."""

from __future__ import annotations

import json

import numpy as np

import irrun
from irrun.cli import main


def test_samplenet_matches_openvino(data):
    out = irrun.run(data / "samplenet/model.xml", np.load(data / "samplenet/input.npy"))
    expected = np.load(data / "samplenet/expected.npz")
    # Values reach 142, and OpenVINO's outputs differ from a computation in f64 by up to 1.3e-4.
    np.testing.assert_allclose(out[0], expected[expected.files[0]], rtol=1e-6, atol=1e-4)


def test_face_detector_matches_openvino(data):
    folder = data / "face-detection-retail-0004"
    out = irrun.run(folder / "ir11/model.xml", np.load(folder / "input.npy"))
    expected = np.load(folder / "ir11/expected.npz")
    (name,) = expected.files
    rows, expected_rows = out[0].reshape(-1, 7), expected[name].reshape(-1, 7)
    np.testing.assert_allclose(rows[:, 2], expected_rows[:, 2], rtol=0, atol=1e-4)
    # Two of the 200 scores differ by less than 1e-7, so that their rows may be swapped.
    distance = np.abs(rows[:, None] - expected_rows[None]).max(axis=2)
    assert distance.min(axis=1).max() < 1e-4
    assert distance.min(axis=0).max() < 1e-4
    assert (distance.diagonal() < 1e-4).sum() >= 198


def test_face_detector_finds_two_faces_from_the_command_line(data, tmp_path, capsys):
    model = data / "face-detection-retail-0004/ir11/model.xml"
    main(
        ["run", str(model), "--input", f"data={data / 'street.jpg'}", "--output", str(tmp_path / "faces.npy"), "--json"]
    )
    (written,) = json.loads(capsys.readouterr().out)["written"]
    rows = np.load(written).reshape(-1, 7)
    assert (rows[:, 2] > 0.5).sum() == 2
    expected = np.load(data / "face-detection-retail-0004/ir11/expected.npz")
    (name,) = expected.files
    expected_rows = expected[name].reshape(-1, 7)[:2]
    np.testing.assert_allclose(rows[:2, 3:], expected_rows[:, 3:], atol=0.03)


def test_silero_vad_passes_its_state_from_chunk_to_chunk(data):
    folder = data / "silero-vad"
    speech = np.load(folder / "speech_16khz_int16.npy").astype(np.float32) / 32768
    expected = np.load(folder / "expected.npz")["probabilities"]
    compiled = irrun.compile_model(folder / "model.xml")
    state = np.zeros((2, 1, 128), np.float32)
    context = np.zeros(64, np.float32)
    probabilities = []
    for start in range(0, len(expected) * 512, 512):
        chunk = speech[start : start + 512]
        out = compiled({"input": np.concatenate([context, chunk])[None], "state": state})
        probabilities.append(out["output"].item())
        state, context = out["stateN"], chunk[-64:]
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-4)
