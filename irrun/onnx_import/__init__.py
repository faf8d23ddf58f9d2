"""Reading of ONNX models as graphs of OpenVINO's operations.

`api.py` reads a file, `importer.py` walks over its graph, and `rules/` has a function for each operator of ONNX, which
adds operations to a `graph.Graph`. Operators without a rule that ONNX defines as functions of others are expanded.
"""
