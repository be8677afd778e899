"""`ragwright synth`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer import Option

from ..core import ConfigError, count_noun
from ..flow import RunSummary
from ..testsets import (
    Synthesis,
    SynthesisOptions,
    import_testset,
    read_rows,
    review_status,
    write_chat,
    write_rows,
)
from ._flags import WORK, Flags, names_of, takes
from ._show import show_forecast, show_progress

_CHAT = ".chat.jsonl"


@dataclass(frozen=True, slots=True)
class SynthFlags:
    """The options of `synth` alone."""

    output: Path = Option(
        Path("testsets/synth.jsonl"),
        "-o",
        "--output",
        help="The testset to write (JSONL); NAME.chat.jsonl: chat turns for fine-tuning.",
    )
    questions: int = Option(50, "-n", "--questions", min=1, help="Number of questions.")
    source: Path | None = Option(
        None, "--from", help="Take the rows of this file: locate their gold, label and split them."
    )
    kinds: str = Option(
        "",
        help="Comma-separated kinds: model, cloze (a sentence with a gap), heading; by default "
        "model, without a model cloze and heading.",
    )
    per_chunk: int = Option(
        3, min=1, help="Maximum number of questions that a model writes per chunk."
    )
    levels: str = Option(
        "",
        help="Comma-separated levels: fact,extraction,style,idea; all by default.",
    )
    personas: str = Option(
        "", help="Personas that get their own gold answers, separated by commas."
    )
    model: str = Option("", help="Chat model that writes the questions; by default answer.model.")
    force: bool = Option(False, "--force", help="Overwrite the output.")

    def may_replace(self, flags: Flags) -> bool:
        """True if an existing testset may be overwritten: never one under review."""
        if self.force or flags.dry_run:
            return True
        resumed = flags.resume and not self.output.name.endswith(_CHAT)
        return resumed and not any(map(review_status, read_rows(self.output)))

    def options(self, flags: Flags) -> SynthesisOptions:
        """Settings for making the testset."""
        return SynthesisOptions(
            questions=self.questions,
            kinds=names_of(self.kinds),
            model=self.model,
            levels=names_of(self.levels),
            personas=names_of(self.personas),
            per_chunk=self.per_chunk,
            seed=flags.seed,
            resume=flags.resume,
        )


@takes(WORK)
def command(flags: Flags, own: SynthFlags) -> int:
    """Make a test set from the indexed documents.

    A model writes it, or fixed rules offline, or it is taken from given rows.
    """
    console, output = flags.console, own.output
    if output.exists() and not own.may_replace(flags):
        raise ConfigError(
            "the testset exists already; nothing was changed",
            where=str(output),
            hint="choose another name, or --force to overwrite it, reviews included",
        )
    run: RunSummary | None = None
    with flags.open() as bench:
        if flags.dry_run and own.source is None:
            show_forecast(console, bench.forecast_synth(own.options(flags)))
            console.remark("rejected questions are replaced from further chunks, which adds calls")
            return 0
        with show_progress(console, bench):
            if own.source is not None:
                synthesis = import_testset(bench.project, own.source)
            else:
                synthesis, run = bench.synth(own.options(flags))
    if synthesis.rows and not flags.dry_run:
        console.make_folder_of(output)
        if output.name.endswith(_CHAT):
            count = write_chat(synthesis.rows, output)
            console.remark(f"{count} rows with a gold answer, as chat")
        else:
            write_rows(synthesis.rows, output)
    splits = dict.fromkeys(("tune", "confirm"), 0)
    for row in synthesis.rows:
        name = str(row.metadata.get("split", ""))
        splits[name] = splits.get(name, 0) + 1
    console.show(
        lambda: _document(synthesis, output, splits, run), lambda: _text(synthesis, output, splits)
    )
    if not flags.as_json and not output.name.endswith(_CHAT):
        console.remark(f"review the questions before you rely on them: ragwright review {output}")
        console.remark("how many questions a margin needs: ragwright gate --plan")
    return 0 if run is None or run.reason is None else console.ended(run, scored=False)


def _document(
    synthesis: Synthesis, output: Path, splits: dict[str, int], run: RunSummary | None
) -> dict[str, Any]:
    return {
        "testset": str(output),
        "rows": len(synthesis.rows),
        "questions": synthesis.questions,
        "made": dict(synthesis.made),
        "rejected": dict(synthesis.rejected),
        "splits": splits,
        "leak": list(synthesis.leak_quartiles()),
        "notes": list(synthesis.notes),
        "run": None if run is None else run.run,
    }


def _text(synthesis: Synthesis, output: Path, splits: dict[str, int]) -> str:
    questions = count_noun(synthesis.questions, "question")
    lines = [f"{questions}, {count_noun(len(synthesis.rows), 'row')} on {output}", "", "made"]
    lines += [f"  {count:5}  {kind}" for kind, count in synthesis.made.items()]
    lines += ["rejected" if synthesis.rejected else "rejected: none"]
    lines += [f"  {count:5}  {reason}" for reason, count in synthesis.rejected.items()]
    lines.append("splits: " + ", ".join(f"{name} {count}" for name, count in splits.items()))
    if quartiles := synthesis.leak_quartiles():
        least, first, middle, third, most = quartiles
        lines.append(
            "lexical leak (share of the chunk's rare words that the question repeats): "
            f"minimum {least:.2f}, quartiles {first:.2f} {middle:.2f} {third:.2f}, maximum "
            f"{most:.2f}"
        )
    return "\n".join([*lines, *(f"note: {note}" for note in synthesis.notes)])
