"""`irrun transcribe`: write down speech."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from irrun.cli import ExampleCommand
from irrun.cli.inputs import FilePath
from irrun.cli.numbers import IntegerRange
from irrun.cli.options import setting_options

if TYPE_CHECKING:
    from irrun.generation.transcription import Transcript
    from irrun.runtime.options import RunSettings

__all__ = ["command"]


@click.command(
    "transcribe",
    cls=ExampleCommand,
    examples=[
        "irrun transcribe FOLDER speech.wav",
        "irrun transcribe FOLDER speech.wav --language de --task translate",
        "irrun transcribe FOLDER speech.wav --return-timestamps --json",
    ],
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("sounds", nargs=-1, required=True, metavar="FILE.wav...", type=FilePath(".wav"))
@click.option("--language", metavar="NAME", help="The language of the speech, such as en.  [default: detect it]")
@click.option("--task", type=click.Choice(["transcribe", "translate"]), help="translate: write it in English.")
@click.option("--return-timestamps", is_flag=True, help="Print segments with their times, in seconds.")
@click.option("--initial-prompt", metavar="TEXT", help="A text that precedes the speech, for the spelling of names.")
@click.option("--hotwords", metavar="TEXT", help="The same, for each part of a long sound.")
@click.option("--max-new-tokens", type=IntegerRange(min=1), metavar="N", help="Largest number of tokens of 30 s.")
@setting_options()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(folder: Path, sounds: tuple[Path, ...], settings: RunSettings, as_json: bool, **options: Any) -> None:
    """Write down speech with the Whisper model of a folder that optimum-intel exported.

    FOLDER holds openvino_encoder_model.xml, openvino_decoder_model.xml, a tokenizer and a detokenizer. FILE.wav has PCM
    samples of 8, 16, 24 or 32 bits; channels are averaged, and other sampling rates than 16 kHz are converted.
    The time is printed at the end, to standard error.

    Options have the names and meanings of OpenVINO GenAI's WhisperGenerationConfig. Their defaults are in
    generation_config.json of FOLDER.
    """
    from irrun.generation.sound import read_sound
    from irrun.generation.transcription import SpeechRecognizer

    recognizer = SpeechRecognizer(folder, **vars(settings))
    values = {name: value for name, value in options.items() if value not in (None, False)}
    config = recognizer.config.replace(values)
    arrays = [read_sound(path, recognizer.extractor.sampling_rate) for path in sounds]
    results = []
    for array in arrays:
        result = recognizer.transcribe(array, config)
        results.append(result)
        if not as_json:
            _print(result, config.return_timestamps)
    if as_json:
        described = [vars(result) | {"segments": [vars(part) for part in result.segments]} for result in results]
        click.echo(json.dumps(described))


def _print(result: Transcript, has_times: bool) -> None:
    if has_times:
        for part in result.segments:
            end = f"{part.end:.2f}" if part.end >= 0 else "?"
            click.echo(f"{part.start:.2f} to {end}: {part.text}")
    else:
        click.echo(result.text)
    sys.stdout.flush()
    click.echo(f"{result.duration:.3g} s of {result.language or 'speech'} in {result.seconds:.3g} s", err=True)
