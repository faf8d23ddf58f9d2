"""OpenVINO's Python API on irrun.

Programs that use OpenVINO run where it is not installed: `import irrun.openvino as ov` in new code,
`irrun.install_as_openvino()` or `python -m irrun.openvino script.py` for programs that import `openvino`.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

from irrun.openvino import layout_helpers as layout_helpers
from irrun.openvino.async_queue import AsyncInferQueue as AsyncInferQueue
from irrun.openvino.batch import get_batch as get_batch
from irrun.openvino.batch import set_batch as set_batch
from irrun.openvino.compiled_model import CompiledModel as CompiledModel
from irrun.openvino.core import Core as Core
from irrun.openvino.core import compile_model as compile_model
from irrun.openvino.custom_operation import Extension as Extension
from irrun.openvino.custom_operation import Op as Op
from irrun.openvino.custom_operation import OpExtension as OpExtension
from irrun.openvino.dimension import Dimension as Dimension
from irrun.openvino.dimension import Rank as Rank
from irrun.openvino.dimension import Symbol as Symbol
from irrun.openvino.element_type import Type as Type
from irrun.openvino.infer_request import InferRequest as InferRequest
from irrun.openvino.infer_request import ProfilingInfo as ProfilingInfo
from irrun.openvino.infer_request import VariableState as VariableState
from irrun.openvino.layout import Layout as Layout
from irrun.openvino.model import Model as Model
from irrun.openvino.module_names import ModuleFinder, find_module_name
from irrun.openvino.node import ConstOutput as ConstOutput
from irrun.openvino.node import DescriptorTensor as DescriptorTensor
from irrun.openvino.node import DiscreteTypeInfo as DiscreteTypeInfo
from irrun.openvino.node import Input as Input
from irrun.openvino.node import Node as Node
from irrun.openvino.node import Output as Output
from irrun.openvino.opsets import LAST_OPSET, OpsetModule
from irrun.openvino.ovc import convert_model as convert_model
from irrun.openvino.runtime_info import OVAny as OVAny
from irrun.openvino.runtime_info import RTMap as RTMap
from irrun.openvino.serialization import save_model as save_model
from irrun.openvino.serialization import serialize as serialize
from irrun.openvino.shape import AxisSet as AxisSet
from irrun.openvino.shape import AxisVector as AxisVector
from irrun.openvino.shape import Coordinate as Coordinate
from irrun.openvino.shape import CoordinateDiff as CoordinateDiff
from irrun.openvino.shape import PartialShape as PartialShape
from irrun.openvino.shape import Shape as Shape
from irrun.openvino.shape import Strides as Strides
from irrun.openvino.tensor import RemoteTensor as RemoteTensor
from irrun.openvino.tensor import Tensor as Tensor
from irrun.openvino.tensor import TensorVector as TensorVector
from irrun.openvino.utils.data_helpers import tensor_from_file as tensor_from_file
from irrun.openvino.version import Version as Version
from irrun.openvino.version import get_version as get_version

if TYPE_CHECKING:
    from irrun.openvino import experimental as experimental
    from irrun.openvino import frontend as frontend
    from irrun.openvino import helpers as helpers
    from irrun.openvino import op as op
    from irrun.openvino import properties as properties
    from irrun.openvino import utils as utils

__version__ = get_version()

#: Submodules, imported on first use.
_SUBMODULES = (
    "_offline_transformations",
    "_op_base",
    "_ov_api",
    "_pyopenvino",
    "exceptions",
    "experimental",
    "frontend",
    "helpers",
    "ie_api",
    "inference_engine",
    "op",
    "package_utils",
    "passes",
    "preprocess",
    "properties",
    "pyopenvino",
    "runtime",
    "util",
    "utils",
)

for _number in range(1, LAST_OPSET + 1):
    _module = OpsetModule(_number)
    sys.modules[_module.__name__] = _module
    globals()[f"opset{_number}"] = _module


def shutdown() -> None:
    """Do nothing: there are no plugins to unload."""


#: `runtime` and `_pyopenvino`, the names in releases from 2022 on, mean this package.
sys.meta_path.insert(0, ModuleFinder(__name__))  # first, since the other finders would load modules again


def __getattr__(name: str) -> types.ModuleType:
    import importlib

    own_name = find_module_name(name) if name in _SUBMODULES else None
    if own_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(own_name)
