"""OpenVINO GenAI's Python API on irrun.

Programs that use OpenVINO GenAI run where it is not installed: `import irrun.openvino_genai as ov_genai` in new code,
`irrun.install_as_openvino()` or `python -m irrun.openvino script.py` for programs that import `openvino_genai`.

Texts are generated and embedded, and speech is transcribed. Images, videos, spoken answers, adapters and
structured output are not provided: their names can be imported, but using them raises a RuntimeError.
"""

from __future__ import annotations

from typing import Any

from irrun.openvino_genai.absent import make_absent_class
from irrun.openvino_genai.adapters import Adapter as Adapter
from irrun.openvino_genai.adapters import AdapterConfig as AdapterConfig
from irrun.openvino_genai.chat_history import ChatHistory as ChatHistory
from irrun.openvino_genai.continuous_batching import ContinuousBatchingPipeline as ContinuousBatchingPipeline
from irrun.openvino_genai.continuous_batching import EncodedGenerationResult as EncodedGenerationResult
from irrun.openvino_genai.continuous_batching import GenerationHandle as GenerationHandle
from irrun.openvino_genai.continuous_batching import GenerationOutput as GenerationOutput
from irrun.openvino_genai.continuous_batching import GenerationResult as GenerationResult
from irrun.openvino_genai.continuous_batching import PipelineMetrics as PipelineMetrics
from irrun.openvino_genai.embedding import TextEmbeddingPipeline as TextEmbeddingPipeline
from irrun.openvino_genai.enumerations import AggregationMode as AggregationMode
from irrun.openvino_genai.enumerations import GenerationFinishReason as GenerationFinishReason
from irrun.openvino_genai.enumerations import GenerationStatus as GenerationStatus
from irrun.openvino_genai.enumerations import KVCrushAnchorPointMode as KVCrushAnchorPointMode
from irrun.openvino_genai.enumerations import SparseAttentionMode as SparseAttentionMode
from irrun.openvino_genai.enumerations import StopCriteria as StopCriteria
from irrun.openvino_genai.enumerations import StreamingStatus as StreamingStatus
from irrun.openvino_genai.generation_config import GenerationConfig as GenerationConfig
from irrun.openvino_genai.generation_config import WhisperGenerationConfig as WhisperGenerationConfig
from irrun.openvino_genai.llm_pipeline import LLMPipeline as LLMPipeline
from irrun.openvino_genai.parsers import DeepSeekR1ReasoningIncrementalParser as DeepSeekR1ReasoningIncrementalParser
from irrun.openvino_genai.parsers import DeepSeekR1ReasoningParser as DeepSeekR1ReasoningParser
from irrun.openvino_genai.parsers import IncrementalParser as IncrementalParser
from irrun.openvino_genai.parsers import Llama3JsonToolParser as Llama3JsonToolParser
from irrun.openvino_genai.parsers import Llama3PythonicToolParser as Llama3PythonicToolParser
from irrun.openvino_genai.parsers import Parser as Parser
from irrun.openvino_genai.parsers import Phi4ReasoningIncrementalParser as Phi4ReasoningIncrementalParser
from irrun.openvino_genai.parsers import Phi4ReasoningParser as Phi4ReasoningParser
from irrun.openvino_genai.parsers import ReasoningIncrementalParser as ReasoningIncrementalParser
from irrun.openvino_genai.parsers import ReasoningParser as ReasoningParser
from irrun.openvino_genai.perf_metrics import MeanStdPair as MeanStdPair
from irrun.openvino_genai.perf_metrics import PerfMetrics as PerfMetrics
from irrun.openvino_genai.perf_metrics import RawPerfMetrics as RawPerfMetrics
from irrun.openvino_genai.perf_metrics import SummaryStats as SummaryStats
from irrun.openvino_genai.results import DecodedResults as DecodedResults
from irrun.openvino_genai.results import EncodedResults as EncodedResults
from irrun.openvino_genai.scheduler_config import AdaptiveRKVConfig as AdaptiveRKVConfig
from irrun.openvino_genai.scheduler_config import CacheEvictionConfig as CacheEvictionConfig
from irrun.openvino_genai.scheduler_config import KVCrushConfig as KVCrushConfig
from irrun.openvino_genai.scheduler_config import SchedulerConfig as SchedulerConfig
from irrun.openvino_genai.scheduler_config import SparseAttentionConfig as SparseAttentionConfig
from irrun.openvino_genai.settings import draft_model as draft_model
from irrun.openvino_genai.streamers import StreamerBase as StreamerBase
from irrun.openvino_genai.streamers import TextParserStreamer as TextParserStreamer
from irrun.openvino_genai.streamers import TextStreamer as TextStreamer
from irrun.openvino_genai.tokenizer import TokenizedInputs as TokenizedInputs
from irrun.openvino_genai.tokenizer import Tokenizer as Tokenizer
from irrun.openvino_genai.version import get_version as get_version
from irrun.openvino_genai.whisper import WhisperDecodedResultChunk as WhisperDecodedResultChunk
from irrun.openvino_genai.whisper import WhisperDecodedResults as WhisperDecodedResults
from irrun.openvino_genai.whisper import WhisperPerfMetrics as WhisperPerfMetrics
from irrun.openvino_genai.whisper import WhisperPipeline as WhisperPipeline
from irrun.openvino_genai.whisper import WhisperRawPerfMetrics as WhisperRawPerfMetrics

__version__ = get_version()

#: The names of OpenVINO GenAI that this package does not have: classes that cannot be created.
_ABSENT = frozenset(
    """
    ASRDecodedResultChunk ASRDecodedResults ASRGenerationConfig ASRPerfMetrics ASRPipeline ASRRawPerfMetrics
    AutoencoderKL AutoencoderKLLTXVideo CLIPTextModel CLIPTextModelWithProjection CppStdGenerator EmbedResult
    EmbeddingPipeline ExtendedPerfMetrics Flux2Transformer2DModel FluxTransformer2DModel Generator
    Image2ImagePipeline ImageGenerationConfig ImageGenerationPerfMetrics InpaintingPipeline
    LTXVideoTransformer3DModel OmniDecodedResults OmniPipeline OmniSpeechStreamerBase OmniTalkerSpeechConfig
    Qwen2_5_VLForConditionalGeneration Qwen3TextEncoder QwenImageTransformer2DModel RawImageGenerationPerfMetrics
    SD3Transformer2DModel SDPerModelsPerfMetrics SDPerfMetrics Scheduler SpeechGenerationConfig
    SpeechGenerationPerfMetrics StructuralTagItem StructuralTagsConfig StructuredOutputConfig T5EncoderModel Talker
    TalkerBase TalkerPerfMetrics TalkerResults TaylorSeerCacheConfig Text2ImagePipeline Text2SpeechDecodedResults
    Text2SpeechPipeline Text2VideoPipeline TextRerankPipeline TorchGenerator UNet2DConditionModel VLLMParserWrapper
    VLMDecodedResults VLMPerfMetrics VLMPipeline VLMPipelineBase VLMRawPerfMetrics VideoGenerationConfig
    VideoGenerationPerfMetrics VideoGenerationResult VideoMetadata WhisperWordTiming ZImageTransformer2DModel
    """.split()  # noqa: SIM905
)


def __getattr__(name: str) -> Any:
    if name not in _ABSENT:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, make_absent_class(name))
