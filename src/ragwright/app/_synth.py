"""`ragwright synth`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core import ConfigError, counted
from ..flow import RunSummary
from ..testsets import (
    Synthesis,
    Synthesizing,
    import_testset,
    read_rows,
    review_status,
    write_chat,
    write_rows,
)
from ..workbench import Workbench
from ._console import EXIT_UNTRUSTED, Console, fail, reported
from ._flags import WorkFlags, with_flags
from ._options import names_of
from ._show import show_forecast, show_progress

_CHAT = ".chat.jsonl"

_MOST_SHARES = 12
"""Most folders, formats or languages that are listed with their number of questions."""


@dataclass(frozen=True, slots=True)
class SynthFlags(WorkFlags):
    """The flags of `synth`, each an option of the command line."""

    kinds: Annotated[
        str,
        typer.Option(
            help="model, template, cloze, heading, separated by commas; without a model: template."
        ),
    ] = ""
    weak: Annotated[
        bool,
        typer.Option(
            "--weak", help="Without a model: fill up with sentences with a gap and with headings."
        ),
    ] = False
    per_chunk: Annotated[
        int, typer.Option(min=1, help="Most questions that a model writes per chunk.")
    ] = 3
    levels: Annotated[str, typer.Option(help="fact,extraction,style,idea; all by default.")] = ""
    personas: Annotated[str, typer.Option(help="Personas with separate gold answers.")] = ""
    model: Annotated[str, typer.Option(help="Chat model that writes; answer.model by default.")] = (
        ""
    )
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False

    def may_replace(self, output: Path) -> bool:
        """True if an existing testset may be overwritten: never one under review."""
        if self.force or self.dry_run:
            return True
        resumed = self.resume and not output.name.endswith(_CHAT)
        return resumed and not any(map(review_status, read_rows(output)))

    def how(self, questions: int) -> Synthesizing:
        """Settings for making the testset."""
        return Synthesizing(
            questions=questions,
            kinds=names_of(self.kinds),
            model=self.model,
            levels=names_of(self.levels),
            personas=names_of(self.personas),
            per_chunk=self.per_chunk,
            weak=self.weak,
            seed=self.seed,
            resume=self.resume,
        )


@reported
@with_flags
def command(
    flags: SynthFlags,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help="The testset to write (JSONL); NAME.chat.jsonl: chat turns for fine-tuning.",
        ),
    ] = Path("testsets/synth.jsonl"),
    questions: Annotated[int, typer.Option("-n", "--questions", min=1, help="How many.")] = 50,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Take the rows of this file: locate gold, label, split."),
    ] = None,
) -> int:
    """Make a testset from the indexed documents: with a model, offline, or from given rows."""
    console = Console(flags.quiet)
    if output.exists() and not flags.may_replace(output):
        raise ConfigError(
            "the testset exists already; nothing was changed",
            where=str(output),
            hint="choose another name, or --force to overwrite it, reviews included",
        )
    run: RunSummary | None = None
    with Workbench.open(flags.project, flags.session()) as bench:
        if flags.dry_run and source is None:
            show_forecast(console, bench.forecast_synth(flags.how(questions)), flags.as_json)
            console.remark("rejected questions are replaced from further chunks, which adds calls")
            return 0
        with show_progress(console, bench):
            if source is not None:
                made = import_testset(bench.project, source)
            else:
                made, run = bench.synth(flags.how(questions))
    if made.rows and not flags.dry_run:
        console.make_folder_of(output)
        if output.name.endswith(_CHAT):
            console.remark(f"{write_chat(made.rows, output)} rows with a gold answer, as chat")
        else:
            write_rows(made.rows, output)
    _show(console, made, output, run, flags.as_json)
    if run is not None and run.reason is not None:
        fail(run.reason)
        console.remark("run it again with --resume to go on")
        return EXIT_UNTRUSTED
    return 0


def _show(
    console: Console, made: Synthesis, output: Path, run: RunSummary | None, as_json: bool
) -> None:
    splits = dict.fromkeys(("tune", "confirm"), 0)
    for row in made.rows:
        name = str(row.metadata.get("split", ""))
        splits[name] = splits.get(name, 0) + 1
    if as_json:
        told: dict[str, Any] = {
            "testset": str(output),
            "rows": len(made.rows),
            "questions": made.questions,
            "made": dict(made.made),
            "rejected": dict(made.rejected),
            "weak": made.weak,
            "weak_left_out": made.weak_left_out,
            "shares": {name: dict(counts) for name, counts in made.shares.items()},
            "splits": splits,
            "leak": list(made.leak_quartiles()),
            "notes": list(made.notes),
            "run": None if run is None else run.run,
        }
        console.json(told)
        return
    lines = [
        f"{counted(made.questions, 'question')}, {counted(len(made.rows), 'row')} on {output}",
        "",
        "made",
    ]
    lines += [f"  {count:5}  {kind}" for kind, count in made.made.items()]
    lines += ["rejected" if made.rejected else "rejected: none"]
    lines += [f"  {count:5}  {reason}" for reason, count in made.rejected.items()]
    lines += _shares_lines(made)
    lines.append("splits: " + ", ".join(f"{name} {count}" for name, count in splits.items()))
    if quartiles := made.leak_quartiles():
        least, first, middle, third, most = quartiles
        lines.append(
            "lexical leak (share of the chunk's rare words that the question repeats): "
            f"minimum {least:.2f}, quartiles {first:.2f} {middle:.2f} {third:.2f}, maximum "
            f"{most:.2f}"
        )
    lines += [f"note: {note}" for note in made.notes]
    console.result("\n".join(lines))
    if not output.name.endswith(_CHAT):
        console.remark(f"review the questions before you rely on them: ragwright review {output}")


def _shares_lines(made: Synthesis) -> list[str]:
    """Questions by folder, format and language; the kinds are listed under "made"."""
    lines = []
    for dimension, counts in made.shares.items():
        shown = [f"{value} {count}" for value, count in islice(counts.items(), _MOST_SHARES)]
        if len(counts) > _MOST_SHARES:
            others = sum(counts.values()) - sum(islice(counts.values(), _MOST_SHARES))
            shown.append(f"{len(counts) - _MOST_SHARES} others {others}")
        if dimension != "kind":
            lines.append(f"by {dimension}: {', '.join(shown)}")
    return lines
