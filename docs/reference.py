"""Writes the reference pages from the code: commands, keys, errors, measures.

`python docs/reference.py` writes them, `--check` fails where one is stale.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import typer
from typer.testing import CliRunner

from ragwright import core, measure, project
from ragwright.answer import PromptOptions, compose, load_shipped_personas, presets
from ragwright.app import command_line
from ragwright.core import Hit

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "projects"))
from reader_table import ROWS

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- written by docs/reference.py; do not edit -->\n\n"


def commands() -> Iterator[str]:
    """Help of every command, as printed."""
    yield "# Commands\n\n"
    app = command_line()
    runner = CliRunner(env={"COLUMNS": "96", "TERMINAL_WIDTH": "96"})
    listed: Sequence[Sequence[str]] = [[]]
    known = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name in sorted(known):
        inner = getattr(known[name], "commands", None)
        listed = [*listed, [name], *([name, sub] for sub in sorted(inner or ()))]
    for words in listed:
        shown = runner.invoke(app, [*words, "--help"], prog_name="ragwright").output
        body = "\n".join(line.rstrip() for line in shown.strip().splitlines())
        yield f"## {' '.join(['ragwright', *words])}\n\n```text\n{body}\n```\n\n"


def keys() -> Iterator[str]:
    """Every key of a project file."""
    yield "# Keys of a project file\n\n"
    yield (
        "`index`: a change needs `ragwright ingest` again (what was built before is kept). "
        "`query`: a change takes effect at once.\n\n"
    )
    yield "| key | when | default | meaning |\n|---|---|---|---|\n"
    for name, when, default, text in project.project_keys():
        shown = "" if default is None else f"`{default!r}`"
        yield f"| `{name}` | {when} | {shown} | {text} |\n"


def errors() -> Iterator[str]:
    """Every error, with the sentence that says when it happens."""
    yield "# Errors\n\n| error | happens when | kind of |\n|---|---|---|\n"
    for name in sorted(core.__all__):
        kind = getattr(core, name)
        if isinstance(kind, type) and issubclass(kind, core.RagwrightError):
            sentence = (kind.__doc__ or "").strip().splitlines()[0]
            yield f"| `{name}` | {sentence} | `{kind.__mro__[1].__name__}` |\n"


def measures() -> Iterator[str]:
    """Every measure this version computes."""
    yield "# Measures\n\n"
    yield "| measure | meaning | needs | range | better | model | source | numbers held to |\n"
    yield f"{'|---' * 8}|\n"
    for entry in measure.definitions():
        high = "unbounded" if entry.high is None else f"{entry.high:g}"
        needs = ", ".join(f"`{name}`" for name in entry.needs)
        if entry.instead:
            needs += f", or {', '.join(f'`{name}`' for name in entry.instead)}"
        form = entry.form.replace("|", "\\|")
        span = f"{entry.low:g} to {high}"
        better = "higher" if entry.higher_is_better else "lower"
        model = f"{entry.model} (`[{entry.extra}]`)" if entry.extra else entry.model
        yield (
            f"| `{form}` | {entry.summary} | {needs} | {span} | {better} | {model} | "
            f"{entry.source} | {entry.validated} |\n"
        )


def readers() -> Iterator[str]:
    """What readers keep and leave out, from the rows that the tests read."""
    yield (
        "# What readers keep and leave out\n\nEach entry is held by a test with a file of its own. "
        "What is counted stands in one\nwarning of the document for each cause: in `ingest`, its "
        "`--json`, and the page Sources.\n\n"
        "| format | kept | left out, and counted | left out |\n|---|---|---|---|\n"
    )
    for name in dict.fromkeys(row.format for row in ROWS):
        cells = (
            "; ".join(row.what for row in ROWS if (row.format, row.state) == (name, state))
            for state in ("kept", "counted", "left out")
        )
        yield f"| {name} | {' | '.join(cells)} |\n"


def prompt_presets() -> Iterator[str]:
    """Every prompt preset."""
    yield (
        "# Prompt presets\n\nThe sixteen variants of the prompt that a published comparison of two "
        "teams measured, with\ntheir numbers there. A preset changes the complete prompt as "
        "follows.\n\n"
        "| preset | number | parts left out | parts swapped |\n|---|---|---|---|\n"
    )
    for name, changes in presets().items():
        out = ", ".join(f"`{part}`" for part in changes.get("without", ()))
        swapped = ", ".join(f"`{a}` and `{b}`" for a, b in changes.get("swap", ()))
        yield f"| `{name}` | {changes['source']} | {out} | {swapped} |\n"
    yield (
        "\n## The prompts\n\nThe prompt of each preset for the persona `engineer`, one question "
        "and one passage.\n"
    )
    engineer = load_shipped_personas()["engineer"]
    for name in presets():
        prompt = compose(_QUESTION, engineer, _HITS, PromptOptions(preset=name))
        yield f"\n### `{name}`\n\n```text\n{_wrapped(prompt.text)}\n```\n"


_QUESTION = "How often must the brake fluid be changed?"
_PASSAGE = "The brake fluid must be changed every two years, and after work on the brake system."
_HITS = [Hit(1, 1.0, "handbook", "handbook:0", "handbook.md", "Brakes", 12, 0, 83, _PASSAGE)]


def _wrapped(text: str) -> str:
    """A text with lines of at most 96 characters."""
    return "\n".join(textwrap.fill(line, 96) for line in text.splitlines())


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "commands.md": commands,
    "errors.md": errors,
    "keys.md": keys,
    "measures.md": measures,
    "presets.md": prompt_presets,
    "readers.md": readers,
}


def main() -> int:
    """Write or check the pages."""
    stale = []
    for name, write in PAGES.items():
        text = NOTE + "".join(write()).rstrip() + "\n"
        path = FOLDER / name
        if "--check" in sys.argv:
            if not path.exists() or path.read_text("utf-8") != text:
                stale.append(str(path))
        else:
            FOLDER.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    if stale:
        print(f"stale: {', '.join(stale)}; run: make docs", file=sys.stderr)  # noqa: T201
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
