"""`ragwright measures`."""

from __future__ import annotations

import textwrap
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

import typer

from ..core import MeasureError
from ..measure import Definition, definitions, parse_measure, unknown_measure
from ._console import Console, reported, table
from ._options import Json, Output


@reported
def command(
    name: Annotated[
        str | None, typer.Argument(help="Measure to show in full; without one, all are listed.")
    ] = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """List the measures: the fields each needs, its range, direction and source."""
    console = Console(output=output)
    found = definitions()
    if name is not None:
        plain = _plain(name)
        with suppress(MeasureError):  # `faithfulness` is a name of ragas, `Faithfulness` is ours
            plain = parse_measure(name).name.casefold()
        found = tuple(one for one in found if one.name.casefold() == plain)
        if not found:
            raise unknown_measure(name.partition("@")[0].partition("(")[0])
    if as_json:
        console.json({"measures": [{**asdict(one), "form": one.form} for one in found]})
    elif name is not None:
        theirs = [one for one in found if one.name.casefold() != _plain(name)]
        heads = [f"{_plain(name)} of ragas is {one.name} here\n" for one in theirs]
        console.result("\n".join([*heads, "\n\n".join(map(_whole, found))]))
    else:
        rows = [["measure", "kind", "range", "needs", "model", "better"]]
        rows += [
            [one.form, one.kind, _range(one), _needs(one), one.model, _direction(one)]
            for one in found
        ]
        console.result(table(rows))


def _plain(name: str) -> str:
    return name.partition("@")[0].partition("(")[0].casefold()


def _range(one: Definition) -> str:
    return f"{one.low:g} to {'any' if one.high is None else f'{one.high:g}'}"


def _direction(one: Definition) -> str:
    return "higher" if one.higher_is_better else "lower"


def _needs(one: Definition) -> str:
    needs = ", ".join(one.needs)
    return f"{needs} (or {', '.join(one.instead)})" if one.instead else needs


def _whole(one: Definition) -> str:
    lines = [
        f"{one.form}   ({_range(one)}, {_direction(one)} is better)",
        textwrap.fill(one.summary, 96),
        f"needs: {_needs(one)}" + ("" if one.model == "none" else f"; model: {one.model}"),
        f"source: {one.source}",
    ]
    if one.default:
        lines.append(f"without a parameter: {one.default}")
    if one.extra:
        lines.append(f"install: pip install 'ragwright[{one.extra}]'")
    if one.validated:
        lines.append(f"validated against: {one.validated}")
    return "\n".join(lines)
