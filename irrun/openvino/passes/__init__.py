"""Passes over models: patterns of nodes, rewrites and transformations.

irrun's own passes run when a model is compiled and need none of these.
"""

from __future__ import annotations

from irrun.openvino.passes.matcher import Matcher as Matcher
from irrun.openvino.passes.patterns import AnyInput as AnyInput
from irrun.openvino.passes.patterns import Optional as Optional
from irrun.openvino.passes.patterns import Or as Or
from irrun.openvino.passes.patterns import WrapType as WrapType
from irrun.openvino.passes.predicates import Predicate as Predicate
from irrun.openvino.passes.predicates import attrs_match as attrs_match
from irrun.openvino.passes.predicates import consumers_count as consumers_count
from irrun.openvino.passes.predicates import has_static_dim as has_static_dim
from irrun.openvino.passes.predicates import has_static_dims as has_static_dims
from irrun.openvino.passes.predicates import has_static_rank as has_static_rank
from irrun.openvino.passes.predicates import has_static_shape as has_static_shape
from irrun.openvino.passes.predicates import rank_equals as rank_equals
from irrun.openvino.passes.predicates import rank_more_than as rank_more_than
from irrun.openvino.passes.predicates import shape_matches as shape_matches
from irrun.openvino.passes.predicates import type_matches as type_matches
from irrun.openvino.passes.predicates import type_matches_any as type_matches_any
from irrun.openvino.passes.rewriting import BackwardGraphRewrite as BackwardGraphRewrite
from irrun.openvino.passes.rewriting import GraphRewrite as GraphRewrite
from irrun.openvino.passes.rewriting import Manager as Manager
from irrun.openvino.passes.rewriting import MatcherPass as MatcherPass
from irrun.openvino.passes.rewriting import ModelPass as ModelPass
from irrun.openvino.passes.rewriting import PassBase as PassBase
from irrun.openvino.passes.transformations import ConstantFolding as ConstantFolding
from irrun.openvino.passes.transformations import ConvertFP32ToFP16 as ConvertFP32ToFP16
from irrun.openvino.passes.transformations import LowLatency2 as LowLatency2
from irrun.openvino.passes.transformations import MakeStateful as MakeStateful
from irrun.openvino.passes.transformations import Serialize as Serialize
from irrun.openvino.passes.transformations import Version as Version
from irrun.openvino.passes.transformations import VisualizeTree as VisualizeTree
