"""`SchedulerConfig` and its parts: options of OpenVINO GenAI's scheduler and of its cache."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, ClassVar

from irrun.arguments import describe_value
from irrun.openvino_genai.enumerations import AggregationMode, KVCrushAnchorPointMode, SparseAttentionMode
from irrun.openvino_genai.options import Options, OptionSet, to_bool, to_number, to_optional

__all__ = ["AdaptiveRKVConfig", "CacheEvictionConfig", "KVCrushConfig", "SchedulerConfig", "SparseAttentionConfig"]


def _keep(kind: type) -> Callable[[Any], Any]:
    """Return a conversion that accepts objects of a class only."""

    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"expected a {kind.__name__}, found {describe_value(value)}")
        return value

    return check


class _Values(OptionSet):
    """Options that are arguments of the constructor, in their order."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        names = list(self._OPTIONS)
        if len(args) > len(names) or not set(kwargs) <= set(names[len(args) :]):
            raise TypeError(f"{type(self).__name__}(): incompatible constructor arguments: expected {', '.join(names)}")
        for name, value in [*zip(names, args, strict=False), *kwargs.items()]:
            setattr(self, name, value)

    def to_string(self) -> str:
        """Return the options as a text."""
        lines = [f"  {name}: {_describe(getattr(self, name))}" for name in self._OPTIONS]
        return "\n".join([f"{type(self).__name__} {{ ", *lines, " }"])


def _describe(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else getattr(value, "name", str(value))


class KVCrushConfig(_Values):
    """How a part of the cache is chosen by its likeness to a point."""

    _OPTIONS: ClassVar[Options] = {
        "budget": (0, operator.index),
        "anchor_point_mode": (KVCrushAnchorPointMode.RANDOM, _keep(KVCrushAnchorPointMode)),
        "rng_seed": (0, operator.index),
    }


class AdaptiveRKVConfig(_Values):
    """How much attention the kept part of the cache gets."""

    _OPTIONS: ClassVar[Options] = {
        "attention_mass": (0.9, to_number),
        "window_size": (8, operator.index),
    }


class SparseAttentionConfig(_Values):
    """Which parts of long prompts are skipped."""

    _OPTIONS: ClassVar[Options] = {
        "mode": (SparseAttentionMode.TRISHAPE, _keep(SparseAttentionMode)),
        "num_last_dense_tokens_in_prefill": (100, operator.index),
        "num_retained_start_tokens_in_cache": (128, operator.index),
        "num_retained_recent_tokens_in_cache": (1920, operator.index),
        "xattention_threshold": (0.8, to_number),
        "xattention_block_size": (64, operator.index),
        "xattention_stride": (8, operator.index),
    }


class CacheEvictionConfig(OptionSet):
    """Which part of the cache is kept.

    Args:
        start_size: The number of first tokens that are kept.
        recent_size: The number of last tokens that are kept.
        max_cache_size: The number of tokens that are kept.
        aggregation_mode: How scores of tokens are combined.
        apply_rotation: Whether positions are adapted.
        snapkv_window_size: The number of last tokens of the prompt that give scores.
        kvcrush_config: How a part of the cache is chosen by its likeness to a point.

    Raises:
        RuntimeError: A size is out of range.
    """

    _OPTIONS: ClassVar[Options] = {
        "aggregation_mode": (AggregationMode.NORM_SUM, _keep(AggregationMode)),
        "apply_rotation": (False, to_bool),
        "snapkv_window_size": (8, operator.index),
        "kvcrush_config": (None, _keep(KVCrushConfig)),
        "adaptive_rkv_config": (None, _keep(AdaptiveRKVConfig)),
    }

    def __init__(
        self,
        start_size: int,
        recent_size: int,
        max_cache_size: int,
        aggregation_mode: AggregationMode,
        apply_rotation: bool = False,
        snapkv_window_size: int = 8,
        kvcrush_config: Any = None,
    ) -> None:
        super().__init__()
        sizes = {"start_size": start_size, "recent_size": recent_size, "max_cache_size": max_cache_size}
        for name, size in sizes.items():
            if not size:
                raise RuntimeError(f"CacheEvictionConfig.{name} must be non-zero")
        if max_cache_size <= start_size + recent_size:
            raise RuntimeError(
                "CacheEvictionConfig.max_cache_size must be larger than CacheEvictionConfig.start_size + "
                "CacheEvictionConfig.recent_size"
            )
        self.__dict__["_sizes"] = (start_size, recent_size, max_cache_size)
        self.aggregation_mode = aggregation_mode
        self.apply_rotation = apply_rotation
        self.snapkv_window_size = snapkv_window_size
        self.kvcrush_config = kvcrush_config or KVCrushConfig()
        self.adaptive_rkv_config = AdaptiveRKVConfig()

    def get_start_size(self) -> int:
        """Return the number of first tokens that are kept."""
        return int(self.__dict__["_sizes"][0])

    def get_recent_size(self) -> int:
        """Return the number of last tokens that are kept."""
        return int(self.__dict__["_sizes"][1])

    def get_max_cache_size(self) -> int:
        """Return the number of tokens that are kept."""
        return int(self.__dict__["_sizes"][2])

    def get_evictable_size(self) -> int:
        """Return the number of kept tokens that are neither first nor last ones."""
        return self.get_max_cache_size() - self.get_start_size() - self.get_recent_size()


class SchedulerConfig(_Values):
    """Options of OpenVINO GenAI's scheduler. They are accepted but have no effect: requests run one by one."""

    _OPTIONS: ClassVar[Options] = {
        "max_num_batched_tokens": (256, operator.index),
        "num_kv_blocks": (0, operator.index),
        "cache_size": (0, operator.index),
        "num_linear_attention_blocks": (0, operator.index),
        "cache_interval_multiplier": (None, to_optional(operator.index)),
        "dynamic_split_fuse": (True, to_bool),
        "use_cache_eviction": (False, to_bool),
        "max_num_seqs": (256, operator.index),
        "enable_prefix_caching": (False, to_bool),
        "use_sparse_attention": (False, to_bool),
        "cache_eviction_config": (None, _keep(CacheEvictionConfig)),
        "sparse_attention_config": (None, _keep(SparseAttentionConfig)),
    }

    def __init__(self) -> None:
        super().__init__()
        self.cache_eviction_config = CacheEvictionConfig(32, 128, 672, AggregationMode.NORM_SUM)
        self.sparse_attention_config = SparseAttentionConfig()

    def to_string(self) -> str:
        """Return the options as a text."""
        return "\n".join(line for line in super().to_string().split("\n") if "_config: " not in line)
