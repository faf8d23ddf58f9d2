"""Networks with random weights and matching inputs: models of transformers, and some that are defined here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import transformers as tr
from torch import Tensor, nn
from torch.nn import functional as F

ModuleAndInputs = tuple[nn.Module, dict[str, Tensor]]


class OutputSelector(nn.Module):
    """A model of transformers that returns only the named outputs, as a tuple."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, **inputs: Tensor) -> tuple[Tensor, ...]:
        outputs = self.model(**inputs)
        return tuple(getattr(outputs, name) for name in self.names)


class ImageModel(OutputSelector):
    """A model with an image as its input."""

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return super().forward(pixel_values=pixel_values)


class TextModel(OutputSelector):
    """A model with tokens and a mask as its inputs."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return super().forward(input_ids=input_ids, attention_mask=attention_mask)


class TokenModel(OutputSelector):
    """A model with tokens as its input."""

    def forward(self, input_ids: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return super().forward(input_ids=input_ids)


class BertModel(OutputSelector):
    """A model with the three inputs of BERT."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)


class AudioModel(OutputSelector):
    """A model with audio samples as its input."""

    def forward(self, input_values: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return super().forward(input_values=input_values)


def randomize_norms(model: nn.Module) -> nn.Module:
    """Initialize the statistics and scales of normalizations randomly instead of with zeros and ones."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm)) and module.weight is not None:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, std=0.1)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def make_image(size: int, batch: int = 1) -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def make_text(length: int, vocabulary: int, batch: int = 1) -> dict[str, Tensor]:
    """Return random tokens; all texts but the first end with padding."""
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[1:, length * 3 // 4 :] = 0
    return {"input_ids": torch.randint(vocabulary, (batch, length)), "attention_mask": mask}


def resnet50() -> ModuleAndInputs:
    return randomize_norms(
        ImageModel(tr.ResNetForImageClassification(tr.ResNetConfig(num_labels=1000)), "logits")
    ), make_image(224)


def mobilenet_v2() -> ModuleAndInputs:
    config = tr.MobileNetV2Config(num_labels=1000)
    return randomize_norms(ImageModel(tr.MobileNetV2ForImageClassification(config), "logits")), make_image(224)


def efficientnet() -> ModuleAndInputs:
    config = tr.EfficientNetConfig(
        width_coefficient=0.5, depth_coefficient=0.5, image_size=96, hidden_dim=640, num_labels=100
    )
    model = tr.EfficientNetForImageClassification(config)
    model.efficientnet.pooler = nn.AdaptiveAvgPool2d(
        1
    )  # OpenVINO rejects the default kernel, which is larger than the image
    return randomize_norms(ImageModel(model, "logits")), make_image(96, 2)


def convnext() -> ModuleAndInputs:
    config = tr.ConvNextConfig(
        hidden_sizes=[24, 48, 96, 192], depths=[2, 2, 4, 2], layer_scale_init_value=0.5, num_labels=100
    )
    return randomize_norms(ImageModel(tr.ConvNextForImageClassification(config), "logits")), make_image(64, 2)


def swin() -> ModuleAndInputs:
    config = tr.SwinConfig(
        image_size=64, patch_size=2, embed_dim=24, depths=[2, 2, 2], num_heads=[2, 4, 8], window_size=4, num_labels=100
    )
    return randomize_norms(ImageModel(tr.SwinForImageClassification(config), "logits")), make_image(64)


def segformer() -> ModuleAndInputs:
    config = tr.SegformerConfig(
        hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 2, 1], decoder_hidden_size=64, num_labels=20
    )
    return randomize_norms(ImageModel(tr.SegformerForSemanticSegmentation(config), "logits")), make_image(96)


def vit() -> ModuleAndInputs:
    config = tr.ViTConfig(hidden_size=96, num_hidden_layers=4, num_attention_heads=4, intermediate_size=384)
    return randomize_norms(ImageModel(tr.ViTForImageClassification(config), "logits")), make_image(224)


def detr() -> ModuleAndInputs:
    config = tr.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, d_model=64, encoder_layers=2, decoder_layers=2,
        encoder_ffn_dim=128, decoder_ffn_dim=128, encoder_attention_heads=4, decoder_attention_heads=4, num_queries=20,
        backbone_config=tr.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32, 64, 96], depths=[1, 1, 1, 1], out_features=["stage4"]
        ),
    )  # fmt: skip
    return randomize_norms(ImageModel(tr.DetrForObjectDetection(config), "logits", "pred_boxes")), make_image(128)


def deformable_detr() -> ModuleAndInputs:
    config = tr.DeformableDetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, disable_custom_kernels=True, d_model=32,
        encoder_layers=1, decoder_layers=2, encoder_ffn_dim=64, decoder_ffn_dim=64, encoder_attention_heads=4,
        decoder_attention_heads=4, num_queries=20,
        backbone_config=tr.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1] * 4,
            out_features=["stage2", "stage3", "stage4"],
        ),
    )  # fmt: skip
    return randomize_norms(ImageModel(tr.DeformableDetrForObjectDetection(config), "logits", "pred_boxes")), make_image(
        128
    )


def rt_detr() -> ModuleAndInputs:
    config = tr.RTDetrConfig(
        backbone_config=tr.RTDetrResNetConfig(
            embedding_size=16, hidden_sizes=[16, 24, 32, 48], depths=[1] * 4,
            out_features=["stage2", "stage3", "stage4"], layer_type="basic",
        ),
        encoder_in_channels=[24, 32, 48], encoder_hidden_dim=32, encoder_ffn_dim=64, encoder_attention_heads=4,
        d_model=32, num_queries=20, decoder_in_channels=[32] * 3, decoder_ffn_dim=64, decoder_layers=2,
        decoder_attention_heads=4, num_labels=10, num_denoising=0,
    )  # fmt: skip
    model = tr.RTDetrForObjectDetection(config)
    for weights in model.parameters():  # otherwise the scores of all candidates are almost equal
        if weights.ndim > 1:
            nn.init.normal_(weights, std=weights[0].numel() ** -0.5)
    return randomize_norms(ImageModel(model, "logits", "pred_boxes")), make_image(128)


def mask2former() -> ModuleAndInputs:
    config = tr.Mask2FormerConfig(
        use_pretrained_backbone=False, feature_size=32, mask_feature_size=32, hidden_dim=32,
        encoder_feedforward_dim=32, encoder_layers=1, decoder_layers=2, num_attention_heads=4, dim_feedforward=32,
        num_queries=8, num_labels=5,
        backbone_config=tr.SwinConfig(
            image_size=64, embed_dim=16, depths=[1] * 4, num_heads=[2] * 4, window_size=4,
            out_features=["stage1", "stage2", "stage3", "stage4"],
        ),
    )  # fmt: skip
    model = tr.Mask2FormerForUniversalSegmentation(config)
    return randomize_norms(ImageModel(model, "class_queries_logits", "masks_queries_logits")), make_image(64)


def swin2sr() -> ModuleAndInputs:
    config = tr.Swin2SRConfig(
        image_size=32, patch_size=1, embed_dim=24, depths=[2, 2], num_heads=[2, 2], window_size=4, upscale=2
    )
    return randomize_norms(ImageModel(tr.Swin2SRForImageSuperResolution(config), "reconstruction")), make_image(32)


def mobilevit() -> ModuleAndInputs:
    config = tr.MobileViTConfig(
        image_size=64, hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8, 16, 24, 32, 40, 48, 96], num_attention_heads=4,
        num_labels=100,
    )  # fmt: skip
    return randomize_norms(ImageModel(tr.MobileViTForImageClassification(config), "logits")), make_image(64, 2)


def dpt() -> ModuleAndInputs:
    config = tr.DPTConfig(
        image_size=64, hidden_size=48, num_hidden_layers=4, num_attention_heads=4, intermediate_size=96,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[16, 24, 32, 32], fusion_hidden_size=24, is_hybrid=False,
    )  # fmt: skip
    return randomize_norms(ImageModel(tr.DPTForDepthEstimation(config), "predicted_depth")), make_image(64)


def bert_base() -> ModuleAndInputs:
    config = tr.BertConfig()
    inputs = make_text(128, config.vocab_size)
    inputs["token_type_ids"] = (torch.arange(128)[None] > 60).long()
    return randomize_norms(BertModel(tr.BertModel(config), "last_hidden_state", "pooler_output")), inputs


def bert_small() -> ModuleAndInputs:
    config = tr.BertConfig(
        vocab_size=2000, hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512
    )
    return randomize_norms(TextModel(tr.BertModel(config), "last_hidden_state", "pooler_output")), make_text(
        40, 2000, 3
    )


def deberta() -> ModuleAndInputs:
    config = tr.DebertaV2Config(
        vocab_size=2000, hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256,
        relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"], share_att_key=True,
        norm_rel_ebd="layer_norm", position_biased_input=False, type_vocab_size=0, conv_kernel_size=3,
    )  # fmt: skip
    return randomize_norms(TextModel(tr.DebertaV2Model(config), "last_hidden_state")), make_text(40, 2000, 2)


def t5_encoder() -> ModuleAndInputs:
    config = tr.T5Config(
        vocab_size=2000, d_model=96, d_kv=24, d_ff=256, num_layers=3, num_heads=4, feed_forward_proj="gated-gelu"
    )
    return randomize_norms(TextModel(tr.T5EncoderModel(config), "last_hidden_state")), make_text(40, 2000, 2)


def longformer() -> ModuleAndInputs:
    config = tr.LongformerConfig(
        vocab_size=1000, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        attention_window=8,
    )  # fmt: skip
    return randomize_norms(TextModel(tr.LongformerModel(config), "last_hidden_state")), make_text(32, 1000, 2)


def fnet() -> ModuleAndInputs:
    config = tr.FNetConfig(
        vocab_size=1000, hidden_size=64, num_hidden_layers=2, intermediate_size=128, use_tpu_fourier_optimizations=False
    )
    return randomize_norms(TokenModel(tr.FNetModel(config), "last_hidden_state")), {
        "input_ids": torch.randint(1000, (2, 40))
    }


def mamba() -> ModuleAndInputs:
    config = tr.MambaConfig(vocab_size=1000, hidden_size=64, num_hidden_layers=2, state_size=8)
    return TokenModel(tr.MambaModel(config), "last_hidden_state"), {"input_ids": torch.randint(1000, (2, 12))}


def whisper_encoder() -> ModuleAndInputs:
    config = tr.WhisperConfig(
        d_model=96, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=384, max_source_positions=400
    )
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    class Whisper(OutputSelector):
        def forward(self, input_features: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
            return super().forward(input_features=input_features)

    inputs = {"input_features": torch.randn(1, config.num_mel_bins, 800)}
    return randomize_norms(Whisper(WhisperEncoder(config), "last_hidden_state")), inputs


def wav2vec2() -> ModuleAndInputs:
    config = tr.Wav2Vec2Config(
        hidden_size=96, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256, conv_dim=[64] * 7,
        num_conv_pos_embeddings=32, num_conv_pos_embedding_groups=4,
    )  # fmt: skip
    return randomize_norms(AudioModel(tr.Wav2Vec2ForCTC(config), "logits")), {"input_values": torch.randn(1, 8000)}


class Small(nn.Module):
    """A few convolutions, one of them depthwise, and a skip connection; suitable for quantization."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6())
        self.deep = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU())
        self.point = nn.Conv2d(16, 16, 1)
        self.last = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.Hardswish())
        self.output = nn.Linear(32, 10)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.first(pixel_values)
        x = self.last(x + self.point(self.deep(x)))
        return self.output(x.mean((2, 3)))


def small() -> ModuleAndInputs:
    return randomize_norms(Small()), make_image(64, 2)


def encodec_decoder() -> ModuleAndInputs:
    config = tr.EncodecConfig(
        num_filters=8, hidden_size=32, codebook_size=64, codebook_dim=32, upsampling_ratios=[4, 4, 2], num_lstm_layers=1
    )

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = tr.EncodecModel(config)

        def forward(self, audio_codes: Tensor) -> Tensor:
            return self.model.decode(audio_codes, [None]).audio_values

    return Decoder(), {"audio_codes": torch.randint(64, (1, 1, 2, 30))}


class Recurrent(nn.Module):
    """A stack of bidirectional recurrent layers, and a layer whose initial state is an input."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.stack = kind(24, 32, num_layers=2, bidirectional=True, batch_first=True)
        self.last = kind(64, 48, batch_first=True)
        self.output = nn.Linear(48, 10)

    def forward(self, sequence: Tensor, state: Tensor) -> tuple[Any, ...]:
        encoded, _ = self.stack(sequence)
        last, state = self.last(encoded, (state, torch.tanh(state)) if isinstance(self.last, nn.LSTM) else state)
        states = state if isinstance(state, tuple) else (state,)
        return self.output(last), *states


def lstm() -> ModuleAndInputs:
    return Recurrent(nn.LSTM), {"sequence": torch.randn(3, 20, 24), "state": torch.randn(1, 3, 48)}


def gru() -> ModuleAndInputs:
    return Recurrent(nn.GRU), {"sequence": torch.randn(3, 20, 24), "state": torch.randn(1, 3, 48)}


class UNet(nn.Module):
    """A U-Net with four levels that upsamples by transposed convolution and by bilinear interpolation."""

    def __init__(self, widths: Sequence[int] = (12, 24, 48, 64, 96)) -> None:
        super().__init__()
        self.down = nn.ModuleList(self.block(a, b) for a, b in pairwise((3, *widths)))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in pairwise(widths))
        self.narrow = nn.ModuleList(nn.Conv2d(b, a, 1) for a, b in pairwise(widths))
        self.merge = nn.ModuleList(self.block(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 5, 1)

    @staticmethod
    def block(a: int, b: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1),
            nn.BatchNorm2d(b),
            nn.SiLU(),
            nn.Conv2d(b, b, 3, padding=1),
            nn.GroupNorm(4, b),
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        x, skipped = pixel_values, []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            skipped.append(x)
        for i in reversed(range(len(self.up))):
            skip = skipped[i]
            if i % 2:
                x = self.up[i](x)
            else:
                x = self.narrow[i](F.interpolate(x, size=skip.shape[2:], mode="bilinear", align_corners=False))
            x = self.merge[i](torch.cat([x, skip], 1))
        return self.head(x).softmax(1)


def unet() -> ModuleAndInputs:
    return randomize_norms(UNet()), make_image(64, 2)
