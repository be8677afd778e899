"""Records in notebooks: escaped HTML tables, and data frames."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ._errors import MissingExtraError

_MOST = 20
_LONGEST = 300


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> str:
    """A table as HTML for a notebook, every text escaped.

    The first 20 rows are shown and the others counted; a cell shows its first 300 characters.

    Args:
        head: Names of the columns.
        rows: Cells; floats are shown with four digits, None as nothing.
        title: Text above the table.
    """
    all_rows = list(rows)
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(_shown_cell(cell))}</td>' for cell in row)}</tr>"
        for row in all_rows[:_MOST]
    )
    more = f"<p>and {len(all_rows) - _MOST} more</p>" if len(all_rows) > _MOST else ""
    above = f"<p>{escape(title)}</p>" if title else ""
    return f"{above}<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>{more}"


def frame_of(records: Sequence[Mapping[str, Any]]) -> Any:
    """Records as a data frame of pandas, one column per key.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise MissingExtraError(
            "a data frame needs the package 'pandas', which is not installed",
            hint="pip install pandas",
        ) from error
    return pandas.DataFrame(list(records))


def shorten_text(text: str, most: int = 60) -> str:
    """A text in one line of at most so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _shown_cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
