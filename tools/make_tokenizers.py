"""Trains tokenizers of many families on small texts and converts them by OpenVINO Tokenizers.

    python tools/make_tokenizers.py FOLDER            # all of them, a folder each
    python tools/make_tokenizers.py FOLDER gpt2 t5    # those of which a name begins the name
    python tools/make_tokenizers.py FOLDER --size 8000 --text book.txt
    python tools/make_tokenizers.py FOLDER --saved llama/tokenizer.json    # converts a tokenizer, trains none

Each folder gets openvino_tokenizer.xml and openvino_detokenizer.xml. It requires the packages openvino-tokenizers,
tokenizers, sentencepiece, transformers and protobuf.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

__all__ = ["TOKENIZERS", "Recipe", "convert", "read_texts"]

#: Sentences in many scripts, so that vocabularies are not of English alone.
SENTENCES = """\
Der schnelle braune Fuchs springt über den faulen Hund, und die Straße war naß.
Portez ce vieux whisky au juge blond qui fume : l'été dernier, à Noël, où ça ?
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío; añoraba a su querido cachorro.
Съешь же ещё этих мягких французских булок, да выпей чаю. Мама мыла раму.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Η γρήγορη καφέ αλεπού.
いろはにほへと ちりぬるを。東京は日本の首都です。カタカナとひらがな。
天地玄黄,宇宙洪荒。日月盈昃,辰宿列张。我们的模型在这里运行。
다람쥐 헌 쳇바퀴에 타고파. 한국어 문장을 토큰으로 나눕니다.
עטלף אבק נס דרך מזגן שהתפוצץ כי חם. שָׁלוֹם עֲלֵיכֶם
نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر. مَرْحَبًا
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले।
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน
Tôi có thể ăn thủy tinh mà không hại gì. Zażółć gęślą jaźń. Pchnąć w tę łódź jeża.
👍🏽 👨‍👩‍👧 🇩🇪 ✅ ❤️ 😀😃😄 → ← ≤ ≥ ± × ÷ € £ ¥ © ® ™ … — – “quoted” ‘single’
def f(x: int) -> list[str]:\n\treturn [str(i) for i in range(x)]  # 1234567890
""".splitlines()
#: Patterns that GPT-4, Llama 3 and Qwen 2 split text by.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

Texts = Sequence[str]


def read_texts(paths: Sequence[Path] = ()) -> list[str]:
    """Return lines of text to train on: those of files, by default of the documentation, and some in many scripts."""
    paths = paths or sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return lines + SENTENCES * 20


@dataclass(frozen=True)
class Recipe:
    """How a tokenizer is made.

    Attributes:
        train: Takes texts, a size of the vocabulary and `settings`; returns a tokenizer of Hugging Face.
        options: Options of `convert_tokenizer`.
        settings: Settings of the tokenizer, such as `padding_side`.
        size: The size of the vocabulary.
    """

    train: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    size: int = 1500


def wrap(tokenizer: Any, **settings: Any) -> Any:
    """Return a tokenizer of the package `tokenizers` as one of `transformers`."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **settings)


def train_bpe(tokenizer: Any, texts: Texts, size: int, special: Sequence[str], **options: Any) -> None:
    """Train byte pair encoding."""
    from tokenizers import trainers

    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(special), show_progress=False, **options)
    tokenizer.train_from_iterator(texts, trainer)


def make_byte_level(
    texts: Texts,
    size: int,
    pattern: str = "",
    normalizer: str = "",
    begin: str = "",
    digits: bool = False,
    prefix: bool = False,
    **settings: Any,
) -> Any:
    """Make byte-level byte pair encoding.

    Args:
        texts: The texts.
        size: The size of the vocabulary.
        pattern: What texts are split by; empty for that of GPT-2.
        normalizer: The name of a normalizer.
        begin: The token that texts begin with.
        digits: Whether each digit is split off.
        prefix: Whether a space is added before a text.
        settings: Settings of the tokenizer.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.BPE(ignore_merges=bool(pattern)))
    steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if digits else []
    if pattern:
        steps.append(pre_tokenizers.Split(Regex(pattern), behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not pattern))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps) if len(steps) > 1 else steps[0]
    if normalizer:
        tokenizer.normalizer = getattr(normalizers, normalizer)()
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *([begin] if begin else [])]
    train_bpe(tokenizer, texts, size, special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if begin:
        template = processors.TemplateProcessing(
            single=f"{begin} $A", pair=f"{begin} $A {begin} $B", special_tokens=[(begin, tokenizer.token_to_id(begin))]
        )
        tokenizer.post_processor = processors.Sequence([tokenizer.post_processor, template])
    return wrap(tokenizer, eos_token="<|endoftext|>", pad_token="<|endoftext|>", **settings)


def make_roberta(texts: Texts, size: int, **settings: Any) -> Any:
    """Make byte-level byte pair encoding with the frame of RoBERTa."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    train_bpe(tokenizer, texts, size, special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return wrap(tokenizer, pad_token="<pad>", eos_token="</s>", bos_token="<s>", mask_token="<mask>", **settings)


def make_clip(texts: Texts, size: int, **settings: Any) -> Any:
    """Make byte pair encoding of words that end with a suffix, as CLIP has it."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<|endoftext|>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    pattern = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|startoftext|>", "<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    train_bpe(tokenizer, texts, size, special, initial_alphabet=alphabet, end_of_word_suffix="</w>")
    tokenizer.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|startoftext|>", 0))
    return wrap(tokenizer, pad_token="<|endoftext|>", eos_token="<|endoftext|>", **settings)


def train_sentencepiece(texts: Texts, size: int, **options: Any) -> bytes:
    """Return a model of SentencePiece."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    return model.getvalue()


def read_pieces(model: bytes) -> list[tuple[str, float]]:
    """Return the pieces of a model of SentencePiece and their scores."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [(processor.IdToPiece(i), processor.GetScore(i)) for i in range(processor.GetPieceSize())]


def read_charsmap(model: bytes) -> bytes:
    """Return the character map of a model of SentencePiece."""
    from transformers.convert_slow_tokenizer import import_protobuf

    proto = import_protobuf().ModelProto()
    proto.ParseFromString(model)
    charsmap: bytes = proto.normalizer_spec.precompiled_charsmap
    return charsmap


def find_merges(vocabulary: Mapping[str, int], scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the merges of byte pair encoding by SentencePiece, whose order is that of scores."""
    merges = []
    for piece, score in scores.items():
        local = [
            (piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocabulary and piece[i:] in vocabulary
        ]
        merges += [(score, pair) for pair in sorted(local, key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))]
    return [pair for _, pair in sorted(merges, key=lambda merge: merge[0], reverse=True)]


def make_llama2(texts: Texts, size: int, gemma: bool = False, embeds: bool = False, **settings: Any) -> Any:
    """Make byte pair encoding by SentencePiece with bytes for unknown characters.

    Args:
        texts: The texts.
        size: The size of the vocabulary.
        gemma: Whether texts get no space before them, and are split at spaces.
        embeds: Whether the tokenizer keeps the model of SentencePiece.
        settings: Settings of the tokenizer.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    options = {"pad_id": 3, "user_defined_symbols": ["\t", "<start_of_turn>", "\n\n"]} if gemma else {}
    model = train_sentencepiece(
        texts,
        size,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        character_coverage=0.995,
        add_dummy_prefix=not gemma,
        **options,
    )
    pieces = read_pieces(model)
    vocabulary = {piece: i for i, (piece, _) in enumerate(pieces)}
    learned = {piece: score for piece, score in pieces if len(piece) > 1 and score < 0 and not piece.startswith("<0x")}
    merges = find_merges(vocabulary, learned)
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    spaces = normalizers.Replace(" ", "▁")
    last = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if gemma:
        tokenizer.normalizer = spaces
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        tokenizer.decoder = decoders.Sequence(last)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces])
        tokenizer.decoder = decoders.Sequence([*last, decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", vocabulary["<s>"])]
    )
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in ("<unk>", "<s>", "</s>")])
    settings = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>", **settings}
    return wrap_model(tokenizer, model, settings) if embeds else wrap(tokenizer, **settings)


def wrap_model(tokenizer: Any, model: bytes, settings: Mapping[str, Any]) -> Any:
    """Return a tokenizer that is saved with the model of SentencePiece that it was made from."""
    from transformers import PreTrainedTokenizerFast

    class WithModel(PreTrainedTokenizerFast):  # type: ignore[misc]
        vocab_files_names: ClassVar = {"vocab_file": "tokenizer.model", "tokenizer_file": "tokenizer.json"}

        def save_pretrained(self, folder: Any, *arguments: Any, **options: Any) -> Any:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / "tokenizer.model").write_bytes(model)
            return super().save_pretrained(folder, *arguments, **options)

    return WithModel(tokenizer_object=tokenizer, **settings)


def make_bert(texts: Texts, size: int, lowercase: bool = True, **settings: Any) -> Any:
    """Make WordPiece."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return wrap(tokenizer, **{**names, "mask_token": "[MASK]", "model_input_names": inputs, **settings})


def make_unigram(texts: Texts, size: int, roberta: bool = False, embeds: bool = False, **settings: Any) -> Any:
    """Make a unigram model by SentencePiece.

    Args:
        texts: The texts.
        size: The size of the vocabulary.
        roberta: Whether special tokens are those of XLM-RoBERTa, not those of T5.
        embeds: Whether the tokenizer keeps the model of SentencePiece.
        settings: Settings of the tokenizer.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    options = {} if roberta else {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    model = train_sentencepiece(texts, size, model_type="unigram", normalization_rule_name="nmt_nfkc", **options)
    pieces = read_pieces(model)
    if roberta:
        pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *pieces[3:], ("<mask>", 0.0)]
    else:
        pieces += [(f"<extra_id_{i}>", 0.0) for i in range(9, -1, -1)]
    vocabulary = {piece: i for i, (piece, _) in enumerate(pieces)}
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=vocabulary["<unk>"], byte_fallback=False))
    charsmap = normalizers.Precompiled(read_charsmap(model))
    tokenizer.normalizer = normalizers.Sequence([charsmap, normalizers.Replace(Regex(" {2,}"), " ")])
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    if roberta:
        metaspace = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    tokenizer.pre_tokenizer = metaspace
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    frame = "<s> $A </s>" if roberta else "$A </s>"
    pair = "<s> $A </s> </s> $B </s>" if roberta else "$A </s> $B </s>"
    special = [(token, vocabulary[token]) for token in ("<s>", "</s>") if token in vocabulary]
    tokenizer.post_processor = processors.TemplateProcessing(single=frame, pair=pair, special_tokens=special)
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "eos_token": "</s>"}
    if roberta:
        names |= {"bos_token": "<s>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    else:
        names["additional_special_tokens"] = [f"<extra_id_{i}>" for i in range(10)]  # type: ignore[assignment]
    names |= settings
    return wrap_model(tokenizer, model, names) if embeds else wrap(tokenizer, **names)


def make_words(texts: Texts, size: int, characters: bool = False, **settings: Any) -> Any:
    """Make a vocabulary of whole words or of characters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated") if characters else pre_tokenizers.Whitespace()
    special = ["[UNK]", "[PAD]", "[EOS]"]
    tokenizer.train_from_iterator(
        texts, trainers.WordLevelTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    )
    return wrap(tokenizer, **{"unk_token": "[UNK]", "pad_token": "[PAD]", "eos_token": "[EOS]", **settings})


def _list_tokenizers() -> Iterator[tuple[str, Recipe]]:
    llama3 = functools.partial(make_byte_level, pattern=LLAMA3, begin="<|begin_of_text|>")
    qwen = functools.partial(make_byte_level, pattern=QWEN, normalizer="NFC")
    left, short = {"padding_side": "left"}, {"max_length": 16}
    yield "gpt2", Recipe(make_byte_level)
    yield "gpt2-left", Recipe(make_byte_level, {**short, "truncation": True}, left)
    yield "gpt2-keep", Recipe(make_byte_level, {"skip_special_tokens": False, "utf8_replace_mode": "disable"})
    yield "gpt2-stream", Recipe(make_byte_level, {"streaming_detokenizer": True, "utf8_replace_mode": "ignore"})
    yield "starcoder", Recipe(functools.partial(make_byte_level, digits=True))
    yield "roberta", Recipe(make_roberta, {"clean_up_tokenization_spaces": True})
    yield "roberta-max", Recipe(make_roberta, {**short, "truncation": True, "use_max_padding": True})
    yield "llama3", Recipe(llama3)
    yield "llama3-plain", Recipe(llama3, {"add_special_tokens": False}, left)
    yield "llama3-pair", Recipe(llama3, {"number_of_inputs": 2})
    yield "qwen", Recipe(qwen)
    yield "qwen-left", Recipe(qwen, {**short, "truncation": True, "use_max_padding": True}, left)
    yield "clip", Recipe(make_clip)
    yield "clip-max", Recipe(make_clip, {**short, "truncation": True, "use_max_padding": True})
    yield "llama2", Recipe(make_llama2)
    yield "llama2-left", Recipe(make_llama2, {**short, "truncation": True}, left)
    yield "gemma", Recipe(functools.partial(make_llama2, gemma=True))
    yield "bert", Recipe(make_bert)
    yield "bert-pair", Recipe(make_bert, {"number_of_inputs": 2, **short, "truncation": True})
    yield "bert-max", Recipe(make_bert, {**short, "truncation": True, "use_max_padding": True})
    yield "bert-cased", Recipe(functools.partial(make_bert, lowercase=False))
    yield "t5", Recipe(make_unigram)
    yield "t5-keep", Recipe(make_unigram, {"skip_special_tokens": False, **short, "truncation": True})
    yield "xlmr", Recipe(functools.partial(make_unigram, roberta=True))
    yield "xlmr-plain", Recipe(functools.partial(make_unigram, roberta=True), {"add_special_tokens": False}, left)
    yield "words", Recipe(make_words)
    yield "characters", Recipe(functools.partial(make_words, characters=True))
    backend = {"use_sentencepiece_backend": True}
    embedding = functools.partial(make_llama2, embeds=True)
    yield "model-bpe", Recipe(embedding, backend)
    yield "model-bpe-left", Recipe(embedding, {**backend, **short, "truncation": True}, left)
    yield "model-bpe-plain", Recipe(embedding, {**backend, "handle_special_tokens_with_re": False})
    yield "model-bpe-stream", Recipe(embedding, {**backend, "streaming_detokenizer": True})
    yield "model-unigram", Recipe(functools.partial(make_unigram, embeds=True), backend)


#: How tokenizers are made, by their names.
TOKENIZERS: dict[str, Recipe] = dict(_list_tokenizers())


def convert(recipe: Recipe, texts: Texts, size: int | None = None) -> tuple[Any, Any]:
    """Return a tokenizer and its detokenizer as models of OpenVINO.

    Args:
        recipe: How they are made.
        texts: The texts to train on.
        size: The size of the vocabulary; None for that of the recipe.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import openvino_tokenizers
    from openvino_tokenizers.constants import UTF8ReplaceMode

    tokenizer = recipe.train(texts, size or recipe.size, **recipe.settings)
    options = dict(recipe.options)
    if "utf8_replace_mode" in options:
        options["utf8_replace_mode"] = UTF8ReplaceMode(options["utf8_replace_mode"])
    models: tuple[Any, Any] = openvino_tokenizers.convert_tokenizer(tokenizer, with_detokenizer=True, **options)
    return models


def convert_saved(path: Path) -> tuple[Any, Any]:
    """Return a tokenizer that is saved as a file tokenizer.json, and its detokenizer, as models of OpenVINO."""
    import openvino_tokenizers
    from transformers import PreTrainedTokenizerFast

    settings = {}
    if (configuration := path.with_name("tokenizer_config.json")).exists():
        entries = json.loads(configuration.read_text(encoding="utf-8"))
        names = ("bos_token", "eos_token", "pad_token", "unk_token", "padding_side")
        settings = {name: entries[name] for name in names if entries.get(name)}
        settings = {name: value["content"] if isinstance(value, dict) else value for name, value in settings.items()}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path), clean_up_tokenization_spaces=False, **settings)
    models: tuple[Any, Any] = openvino_tokenizers.convert_tokenizer(tokenizer, with_detokenizer=True)
    return models


def main() -> None:
    """Make the tokenizers that the command line names."""
    import openvino

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="the beginnings of names, by default all")
    parser.add_argument("--size", type=int, help="the size of the vocabularies")
    parser.add_argument("--text", type=Path, action="append", default=[], help="a file to train on")
    parser.add_argument("--saved", type=Path, action="append", default=[], help="a file tokenizer.json to convert")
    arguments = parser.parse_intermixed_args()
    texts = read_texts(arguments.text)
    jobs: dict[str, Callable[[], tuple[Any, Any]]] = {
        path.resolve().parent.name: functools.partial(convert_saved, path) for path in arguments.saved
    }
    for name, recipe in TOKENIZERS.items():
        if name.startswith(tuple(arguments.names)) or not (arguments.names or arguments.saved):
            jobs[name] = functools.partial(convert, recipe, texts, arguments.size)
    for name, make in jobs.items():
        folder = arguments.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer, detokenizer = make()
        openvino.save_model(tokenizer, folder / "openvino_tokenizer.xml")
        openvino.save_model(detokenizer, folder / "openvino_detokenizer.xml")
        print(folder)


if __name__ == "__main__":
    main()
