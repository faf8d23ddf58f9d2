"""Imports every module of `irrun.ops`, so that all kernels are registered.

A new module or package takes part by being there; no list has to be kept.
"""

from __future__ import annotations

import importlib
import pkgutil

import irrun.ops

for _module in pkgutil.walk_packages(irrun.ops.__path__, "irrun.ops."):
    importlib.import_module(_module.name)
