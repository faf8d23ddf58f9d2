"""Run ONNX's backend tests on irrun."""
