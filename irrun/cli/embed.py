"""`irrun embed`: convert texts to embedding vectors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import ExampleCommand
from irrun.cli.numbers import IntegerRange
from irrun.cli.options import setting_options

if TYPE_CHECKING:
    from irrun.runtime.options import RunSettings

__all__ = ["command"]


@click.command(
    "embed",
    cls=ExampleCommand,
    examples=[
        'irrun embed FOLDER "a cat" "a clever animal" --pooling-type mean',
        'irrun embed FOLDER "Why is the sky blue?" --query --query-instruction "query: " -o vector.npy',
        "irrun embed FOLDER - -o vectors.npy < lines.txt",
    ],
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@click.option(
    "--pooling-type",
    type=click.Choice(["cls", "mean", "last_token"]),
    default="cls",
    show_default=True,
    help="Use the vector of the first token, the mean of all tokens, or the vector of the last one.",
)
@click.option("--no-normalize", "normalize", is_flag=True, flag_value=False, default=True, help="Keep vector lengths.")
@click.option("--query", "is_query", is_flag=True, help="Texts are queries, not documents.")
@click.option("--query-instruction", default="", metavar="TEXT", help="Prefix of queries.")
@click.option("--embed-instruction", default="", metavar="TEXT", help="Prefix of documents.")
@click.option("--max-length", type=IntegerRange(min=1), metavar="N", help="Maximum number of tokens per text.")
@click.option("--pad-to-max-length", is_flag=True, help="Pad texts to --max-length tokens.")
@click.option("--padding-side", type=click.Choice(["left", "right"]), help="Side on which texts are padded.")
@click.option("--batch-size", type=IntegerRange(min=1), metavar="N", help="Texts per run.  [default: all]")
@setting_options()
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="A .npy, .npz or .json file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    folder: Path,
    texts: tuple[str, ...],
    is_query: bool,
    settings: RunSettings,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Convert texts to embedding vectors with the models in a folder exported by optimum-intel.

    FOLDER contains openvino_tokenizer.xml and openvino_model.xml, a model with the output last_hidden_state. TEXT is a
    text, or - for the lines of standard input. Similar texts have similar vectors.

    Options have the names and meanings of OpenVINO GenAI's TextEmbeddingPipeline.Config.
    """
    from irrun.cli.show import summarize_tensor
    from irrun.cli.tables import print_table
    from irrun.data.save import check_target, save_outputs
    from irrun.errors import escape_unprintable
    from irrun.generation.embedding import EmbeddingConfig, embed

    if output is not None:
        check_target(str(output))
    lines = [line for text in texts for line in (sys.stdin.read().splitlines() if text == "-" else [text])]
    vectors = embed(folder, lines, EmbeddingConfig(**options), is_query=is_query, **vars(settings))
    written = save_outputs({"embeddings": vectors}, output) if output else []
    if as_json:
        vectors_by_text = [{"text": text, "vector": row} for text, row in zip(lines, vectors.tolist(), strict=True)]
        click.echo(json.dumps({"written": [str(path) for path in written]} if written else vectors_by_text))
        return
    if not written:
        rows = [(escape_unprintable(text), *summarize_tensor(row)) for text, row in zip(lines, vectors, strict=True)]
        print_table(("text", "type", "shape", "range", "first values"), rows)
    for path in written:
        click.echo(f"wrote {escape_unprintable(str(path))}, {len(vectors)} of {vectors.shape[1]} values")
