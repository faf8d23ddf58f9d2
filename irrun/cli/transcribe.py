"""`irrun transcribe`: transcribe speech."""

from __future__ import annotations

import json
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
@click.option("--task", type=click.Choice(["transcribe", "translate"]), help="translate: into English.")
@click.option("--return-timestamps", is_flag=True, help="Print segments with their times, in seconds.")
@click.option("--initial-prompt", metavar="TEXT", help="Text placed before the speech, such as the spelling of names.")
@click.option("--hotwords", metavar="TEXT", help="The same, for every 30-second window of a long recording.")
@click.option("--max-new-tokens", type=IntegerRange(min=1), metavar="N", help="Maximum number of tokens per 30 s.")
@setting_options()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(folder: Path, sounds: tuple[Path, ...], settings: RunSettings, as_json: bool, **options: Any) -> None:
    """Transcribe speech with a Whisper model in a folder exported by optimum-intel.

    FOLDER contains openvino_encoder_model.xml, openvino_decoder_model.xml, a tokenizer and a detokenizer. FILE.wav has
    PCM samples of 8, 16, 24 or 32 bits; channels are averaged, and the audio is resampled to 16 kHz. At the end, the
    time is printed to standard error.

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
    click.echo(f"{result.duration:.3g} s of {result.language or 'speech'} in {result.seconds:.3g} s", err=True)
