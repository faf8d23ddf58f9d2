"""Networks of the sizes that people use, with random weights and matching inputs, for the benchmarks of speed."""

from __future__ import annotations

import torch
import transformers as tr
from torch import Tensor, nn
from zoo_networks import (
    AudioModel,
    ImageModel,
    ModuleAndInputs,
    OutputSelector,
    TextModel,
    UNet,
    make_image,
    make_text,
    randomize_norms,
)

__all__ = [
    "convnext_tiny",
    "efficientnet_b0",
    "minilm",
    "minilm_long",
    "mobilenet_v3",
    "segformer_b0",
    "swin_tiny",
    "unet_wide",
    "vit_base",
    "wav2vec2_base",
    "whisper_base",
    "yolo11n",
]


class ImageNetwork(nn.Module):
    """A network of torchvision or ultralytics with an image as its input."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: Tensor) -> Tensor:
        outputs = self.model(pixel_values)
        return outputs[0] if isinstance(outputs, (list, tuple)) else outputs


def convnext_tiny() -> ModuleAndInputs:
    config = tr.ConvNextConfig(layer_scale_init_value=0.5, num_labels=1000)
    return randomize_norms(ImageModel(tr.ConvNextForImageClassification(config), "logits")), make_image(224)


def efficientnet_b0() -> ModuleAndInputs:
    from torchvision.models import efficientnet_b0

    return randomize_norms(ImageNetwork(efficientnet_b0())), make_image(224)


def mobilenet_v3() -> ModuleAndInputs:
    from torchvision.models import mobilenet_v3_large

    return randomize_norms(ImageNetwork(mobilenet_v3_large())), make_image(224)


def swin_tiny() -> ModuleAndInputs:
    config = tr.SwinConfig(num_labels=1000)
    return randomize_norms(ImageModel(tr.SwinForImageClassification(config), "logits")), make_image(224)


def segformer_b0() -> ModuleAndInputs:
    config = tr.SegformerConfig(num_labels=150)
    return randomize_norms(ImageModel(tr.SegformerForSemanticSegmentation(config), "logits")), make_image(256)


def vit_base() -> ModuleAndInputs:
    return randomize_norms(ImageModel(tr.ViTForImageClassification(tr.ViTConfig()), "logits")), make_image(224)


def unet_wide() -> ModuleAndInputs:
    return randomize_norms(UNet((32, 64, 128, 256, 512))), make_image(256)


def minilm(positions: int = 512) -> ModuleAndInputs:
    config = tr.BertConfig(
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=positions,
    )
    return randomize_norms(TextModel(tr.BertModel(config), "last_hidden_state", "pooler_output")), make_text(
        128, config.vocab_size
    )


def minilm_long() -> ModuleAndInputs:
    return minilm(positions=4096)


def wav2vec2_base() -> ModuleAndInputs:
    return randomize_norms(AudioModel(tr.Wav2Vec2ForCTC(tr.Wav2Vec2Config()), "logits")), {
        "input_values": torch.randn(1, 16000)
    }


def whisper_base() -> ModuleAndInputs:
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    class Whisper(OutputSelector):
        def forward(self, input_features: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
            return super().forward(input_features=input_features)

    config = tr.WhisperConfig(d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048)
    inputs = {"input_features": torch.randn(1, config.num_mel_bins, 3000)}
    return randomize_norms(Whisper(WhisperEncoder(config), "last_hidden_state")), inputs


def yolo11n() -> ModuleAndInputs:
    from ultralytics import YOLO

    model = YOLO("yolo11n.yaml").model
    model.model[-1].export = True
    image = make_image(320)
    model.eval()(image["pixel_values"])  # computes the anchors, which a trace should contain as constants
    return randomize_norms(ImageNetwork(model)), image
