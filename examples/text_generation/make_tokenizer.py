"""Write openvino_tokenizer.xml and openvino_detokenizer.xml: a token is an ASCII character.

pip install irrun[openvino] openvino-tokenizers transformers
python examples/text_generation/make_tokenizer.py
"""

from __future__ import annotations

from pathlib import Path

import openvino as ov
import openvino_tokenizers
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

FOLDER = Path(__file__).parent
#: A line ends a tale. Characters beyond ASCII become question marks.
END = "\n"


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are the codes of ASCII characters."""
    vocabulary = {chr(code): code for code in range(128)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="?"))
    tokenizer.normalizer = normalizers.NFKD()
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END)


def main() -> None:
    tokenizers = openvino_tokenizers.convert_tokenizer(make_tokenizer(), with_detokenizer=True)
    for model, name in zip(tokenizers, ("openvino_tokenizer", "openvino_detokenizer"), strict=True):
        ov.save_model(model, FOLDER / f"{name}.xml", compress_to_fp16=False)


if __name__ == "__main__":
    main()
