"""`ragwright measures`."""

from __future__ import annotations

import textwrap
from contextlib import suppress
from dataclasses import asdict

from typer import Argument

from ..core import MeasureError
from ..measure import Definition, definitions, parse_measure, unknown_measure
from ._console import table
from ._flags import Flags, takes


@takes("as_json output")
def command(
    flags: Flags,
    name: str | None = Argument(None, help="Measure to show in full; without one, all are listed."),
) -> None:
    """List the measures and what each one needs.

    Each is shown with its fields, range, direction and source.
    """
    entries = definitions()
    if name is not None:
        plain = _plain(name)
        with suppress(MeasureError):  # `faithfulness` is a name of ragas, `Faithfulness` is ours
            plain = parse_measure(name).name.casefold()
        entries = tuple(entry for entry in entries if entry.name.casefold() == plain)
        if not entries:
            raise unknown_measure(name.partition("@")[0].partition("(")[0])
    flags.console.show(
        lambda: {"measures": [{**asdict(entry), "form": entry.form} for entry in entries]},
        lambda: _table(entries) if name is None else _full(entries, _plain(name)),
    )


def _table(entries: tuple[Definition, ...]) -> str:
    rows = [["measure", "kind", "range", "needs", "model", "better"]]
    rows += [[e.form, e.kind, _range(e), _needs(e), e.model, _direction(e)] for e in entries]
    return table(rows)


def _full(entries: tuple[Definition, ...], name: str) -> str:
    """Everything about some measures, and their names where ``name`` is one of ragas."""
    renamed = [entry.name for entry in entries if entry.name.casefold() != name]
    heads = [f"{name} of ragas is {own} here\n" for own in renamed]
    return "\n".join([*heads, "\n\n".join(map(_details, entries))])


def _plain(name: str) -> str:
    return name.partition("@")[0].partition("(")[0].casefold()


def _range(entry: Definition) -> str:
    return f"{entry.low:g} to {'any' if entry.high is None else f'{entry.high:g}'}"


def _direction(entry: Definition) -> str:
    return "higher" if entry.higher_is_better else "lower"


def _needs(entry: Definition) -> str:
    needs = ", ".join(entry.needs)
    return f"{needs} (or {', '.join(entry.instead)})" if entry.instead else needs


def _details(entry: Definition) -> str:
    lines = [
        f"{entry.form}   ({_range(entry)}, {_direction(entry)} is better)",
        textwrap.fill(entry.summary, 96),
        f"needs: {_needs(entry)}" + ("" if entry.model == "none" else f"; model: {entry.model}"),
        f"source: {entry.source}",
    ]
    if entry.default:
        lines.append(f"without a parameter: {entry.default}")
    if entry.extra:
        lines.append(f"install: pip install 'ragwright[{entry.extra}]'")
    if entry.validated:
        lines.append(f"validated against: {entry.validated}")
    return "\n".join(lines)
