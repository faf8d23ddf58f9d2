"""`irrun generate`: continue texts."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import ExampleCommand
from irrun.cli.numbers import IntegerRange, NumberRange
from irrun.cli.options import setting_options
from irrun.errors import InputError

if TYPE_CHECKING:
    from irrun.generation import GeneratedText
    from irrun.runtime.options import RunSettings

__all__ = ["command"]

#: Number of new tokens if neither an option nor the folder sets it.
DEFAULT_LENGTH = 256


@click.command(
    "generate",
    cls=ExampleCommand,
    examples=[
        'irrun generate examples/text_generation "Once there was a clever cat named Zoe"',
        'irrun generate FOLDER "Why is the sky blue?" --max-new-tokens 100 --do-sample --temperature 0.7 --rng-seed 1',
        'irrun generate FOLDER --chat --system "Answer in one sentence."',
        "irrun generate FOLDER - --json < prompt.txt",
    ],
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("prompts", nargs=-1, metavar="[PROMPT]...")
@click.option("--chat", is_flag=True, help="Chat: answer PROMPT..., or messages typed line by line.")
@click.option("--system", metavar="TEXT", help="System message for --chat.")
@click.option("--max-new-tokens", type=IntegerRange(min=1), metavar="N", help="Maximum number of new tokens.")
@click.option("--min-new-tokens", type=IntegerRange(min=0), metavar="N", help="Minimum number of new tokens.")
@click.option("--do-sample", is_flag=True, default=None, help="Sample tokens instead of taking the most probable.")
@click.option("--temperature", type=NumberRange(min=0), metavar="T", help="Above 1: more varied; below 1: less.")
@click.option("--top-k", type=IntegerRange(min=0), metavar="N", help="Sample from the N most probable tokens.")
@click.option(
    "--top-p",
    type=NumberRange(min=0, max=1),
    metavar="P",
    help="Sample from the top tokens with this total probability.",
)
@click.option(
    "--min-p", type=NumberRange(min=0, max=1), metavar="P", help="Minimum probability, relative to the top token."
)
@click.option("--rng-seed", type=IntegerRange(min=0), metavar="N", help="Seed for sampling.")
@click.option("--repetition-penalty", type=NumberRange(min=0), metavar="X", help="Above 1: repeat less.")
@click.option(
    "--presence-penalty", type=NumberRange(min=-2, max=2), metavar="X", help="Above 0: avoid tokens that occurred."
)
@click.option(
    "--frequency-penalty", type=NumberRange(min=-2, max=2), metavar="X", help="The same, for each occurrence."
)
@click.option("--stop-strings", multiple=True, metavar="TEXT", help="Stop at this text; repeatable.")
@click.option("--ignore-eos", is_flag=True, default=None, help="Continue after the end-of-text token.")
@click.option("--num-return-sequences", type=IntegerRange(min=1), metavar="N", help="Print N texts for each prompt.")
@click.option("--num-beams", type=IntegerRange(min=1), metavar="N", help="Beam search: keep the N best texts.")
@click.option("--num-beam-groups", type=IntegerRange(min=1), metavar="N", help="Split the beams into N groups.")
@click.option("--diversity-penalty", type=NumberRange(), metavar="X", help="Above 0: more different groups.")
@click.option("--length-penalty", type=NumberRange(), metavar="X", help="Above 1: prefer longer texts.")
@click.option(
    "--no-repeat-ngram-size", type=IntegerRange(min=0), metavar="N", help="Beam search: never repeat N tokens."
)
@click.option(
    "--stop-criteria",
    type=click.Choice(["early", "heuristic", "never"], case_sensitive=False),
    help="When beam search ends: with enough texts, when a better text is unlikely, or when none is possible.",
)
@click.option("--echo", is_flag=True, default=None, help="Print the prompt as well.")
@setting_options()
@click.option("--trace", type=click.Path(path_type=Path), metavar="FILE", help="Write all values as JSON lines.")
@click.option("--check", is_flag=True, help="Report the first layer with NaN or infinities; if any, exit with 1.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    folder: Path,
    prompts: tuple[str, ...],
    settings: RunSettings,
    chat: bool,
    system: str | None,
    trace: Path | None,
    check: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Continue texts with the models in a folder exported by optimum-intel.

    FOLDER contains openvino_tokenizer.xml, openvino_model.xml and openvino_detokenizer.xml. The text is printed as it
    is generated; the speed is printed to standard error at the end. PROMPT is a text, or - for standard input.

    With --chat, prompts are messages of one chat, which FOLDER's chat template turns into text. Without PROMPT,
    each typed line is a message; Ctrl+D ends the chat.

    Options have the names and meanings of OpenVINO GenAI's GenerationConfig. Their defaults are in
    generation_config.json of FOLDER.
    """
    from irrun.generation import TextGenerator
    from irrun.generation.token_observers import TokenCheck, TokenTrace

    if not prompts and not chat:
        raise click.UsageError("Missing argument 'PROMPT...'.")
    if system is not None and not chat:
        raise click.UsageError("--system needs --chat.")
    generator = TextGenerator(folder, **vars(settings))
    values = {name: value for name, value in options.items() if value is not None and value != ()}
    config = generator.config.replace(values)
    if config.max_new_tokens is None and config.max_length is None:
        config = config.replace({"max_new_tokens": DEFAULT_LENGTH})
    is_one = config.num_beams == config.num_return_sequences == 1
    streamer = _write if is_one and not as_json else None
    messages = [] if system is None else [{"role": "system", "content": system}]
    results = []
    with contextlib.ExitStack() as stack:
        observers: list[TokenCheck | TokenTrace] = [TokenCheck(generator.model)] if check else []
        if trace is not None:
            try:
                file = stack.enter_context(trace.open("w", encoding="utf-8"))
            except OSError as error:
                raise InputError(f"cannot write {trace}: {error.strerror}") from None
            observers.append(TokenTrace(generator.model, file))
        for number, prompt in enumerate(_iterate_prompts(prompts)):
            for observer in observers:
                observer.restart()
            if number and not as_json and not chat:
                click.echo("")
            if chat:
                messages.append({"role": "user", "content": prompt})
                result = generator.chat(messages, config, streamer, observers=observers)
                messages.append({"role": "assistant", "content": result.text})
            else:
                result = generator.generate(prompt, config, streamer, observers=observers)
            results.append(result)
            if not as_json:
                click.echo("" if is_one else "\n".join(item.text for item in (result, *result.alternatives)))
                click.echo(_describe_speed(result), err=True)
    finding = next((item.finding for item in observers if isinstance(item, TokenCheck)), None)
    if as_json:
        click.echo(json.dumps([_to_json(result) | ({"finding": finding} if check else {}) for result in results]))
    elif check:
        click.echo(finding or "all values are finite", err=True)
    if finding is not None:
        raise click.exceptions.Exit(1)


def _iterate_prompts(prompts: Sequence[str]) -> Iterator[str]:
    """Yield prompts, or lines of standard input if there are none."""
    for text in prompts:
        yield sys.stdin.read().rstrip("\n") if text == "-" else text
    while not prompts:
        if sys.stdin.isatty():
            _write("> ")
        line = sys.stdin.readline()
        if not line:
            if sys.stdin.isatty():
                click.echo("")
            break
        if line.strip():
            yield line.rstrip("\n")


def _to_json(result: GeneratedText) -> dict[str, Any]:
    values = {"tokens_per_second": result.tokens_per_second, "alternatives": list(map(_to_json, result.alternatives))}
    return vars(result) | values


def _write(part: str) -> None:
    click.echo(part, nl=False)


def _describe_speed(result: GeneratedText) -> str:
    count = len(result.tokens)
    speed = f", {result.tokens_per_second:.3g} tokens per second" if result.tokens_per_second else ""
    return f"{count} token{'s' if count != 1 else ''}, the first after {result.first_seconds:.3g} s{speed}"
