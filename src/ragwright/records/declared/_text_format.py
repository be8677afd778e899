"""Assembles a text from the fields of a record: a structure with one ``%s`` per variable."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ...core import Placed, require, value_hash
from .._seams import TEXT, ArrowTable
from ._file import DeclaredFile

_KEYS = ("prompt_variables", "prompt_structure")
_JOINED_BY = ", "
_MARK = re.compile(r"%.?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FormatPiece:
    """One variable and the literals around it; all of it is left out if the variable is empty."""

    variable: str
    before: str
    after: str = ""


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A structure in pieces: one per variable, in order.

    Attributes:
        name: Name of the file.
        pieces: Cut after each ``%s``; a trailing literal belongs to the last one.
    """

    name: str
    pieces: tuple[FormatPiece, ...]

    @property
    def fingerprint(self) -> str:
        """Hash of everything except its name."""
        return value_hash([[p.variable, p.before, p.after] for p in self.pieces])

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of its fields, in order."""
        return tuple(piece.variable for piece in self.pieces)

    def fill(self, fields: Mapping[str, Any]) -> str:
        """The text of a record.

        Args:
            fields: Value by variable: a text, a list (joined by ``", "``), or anything that ``str``
                converts. For a missing, None, blank or empty value the whole piece is left out.
        """
        return "".join(
            f"{piece.before}{value}{piece.after}"
            for piece in self.pieces
            if (value := show_value(fields.get(piece.variable)))
        )

    def request(self, fields: Mapping[str, Any]) -> str:
        """The request for such a text: every piece except the text itself."""
        return self.fill({**fields, TEXT: None})

    def message_at(self, fields: Mapping[str, Any]) -> int:
        """Characters of :meth:`fill` before the text; all of them without a text."""
        at = 0
        for piece in self.pieces:
            value = show_value(fields.get(piece.variable))
            if not value:
                continue
            if piece.variable == TEXT:
                return at + len(piece.before)
            at += len(piece.before) + len(value) + len(piece.after)
        return at

    def fill_batch(self, batch: ArrowTable) -> tuple[ArrowTable, ArrowTable]:
        """:meth:`fill` and :meth:`message_at` of every row of a batch.

        Args:
            batch: A column per variable; texts or lists of texts fast, others by ``str``.

        Returns:
            Arrow arrays of the rows' texts and of their ``message_at``.
        """
        pa = require("pyarrow", "records", "assembling records")
        compute = require("pyarrow.compute", "records", "assembling records")
        parts: list[Any] = []
        before: list[Any] = []
        no_text: Any = False
        empty = _literal("")
        for piece in self.pieces:
            value = _shown_column(batch.column(piece.variable))
            gone = compute.equal(value, empty)
            around = _literal(piece.before), value, _literal(piece.after), empty
            if piece.variable == TEXT:
                before, no_text = [*parts, around[0]], gone
            parts.append(compute.if_else(gone, empty, compute.binary_join_element_wise(*around)))
        joined = compute.binary_join_element_wise(*parts, empty)
        at = compute.utf8_length(compute.binary_join_element_wise(*before, empty, empty))
        at = compute.if_else(no_text, compute.utf8_length(joined), at)
        return joined, compute.cast(at, pa.int64())


def show_value(value: Any) -> str:
    """A field as shown in a format; empty if its piece is left out."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return _JOINED_BY.join(text for text in map(show_value, value) if text)
    text = str(value)
    return text if text.strip() else ""


def parse_text_format(
    placed: Placed, name: str = "", known: Iterable[str] | None = None
) -> TextFormat:
    """The format in a file's values.

    Args:
        placed: ``prompt_variables`` (n names) and ``prompt_structure`` (a text with n ``%s``;
            ``%%`` is a percent sign), with their places.
        name: Name of the format.
        known: Fields of records; None if unknown.

    Raises:
        RecordsError: The first fault, with file and line.
    """
    declared = DeclaredFile(placed)
    text_format = read_text_format(declared, name, known)
    if declared.faults:
        raise declared.faults[0]
    return text_format


def read_text_format(
    declared: DeclaredFile, name: str = "", known: Iterable[str] | None = None
) -> TextFormat:
    """:func:`parse_text_format` that notes every fault instead of raising the first."""
    values = declared.keys(_KEYS)
    for key in _KEYS:
        if key not in values:
            declared.fault(f"the text format needs the key {key!r}")
    variables = declared.texts(values.get("prompt_variables"), "prompt_variables")
    _check_variables(declared, variables, known)
    structure = values.get("prompt_structure")
    if "prompt_structure" not in values:
        return TextFormat(name, ())
    text = declared.text(structure, "prompt_structure")
    literals = None if text is None else _cut(declared, text)
    if literals is None:
        return TextFormat(name, ())
    *_, last = literals
    count = len(literals) - 1
    if count != len(variables):
        declared.fault(
            f"prompt_structure has {count} %s, prompt_variables has {len(variables)} names",
            "prompt_structure",
            hint="one %s per name, in the same order; %% is a percent sign",
        )
        return TextFormat(name, ())
    pieces = [
        FormatPiece(variable, before)
        for variable, (before, _) in zip(variables, pairwise(literals), strict=True)
    ]
    if pieces:
        pieces[-1] = FormatPiece(pieces[-1].variable, pieces[-1].before, last)
    return TextFormat(name, tuple(pieces))


def _check_variables(
    declared: DeclaredFile, variables: tuple[str, ...], known: Iterable[str] | None
) -> None:
    names = None if known is None else sorted(set(known))
    for at, variable in enumerate(variables):
        if names is not None and variable not in names:
            declared.fault(
                f"unknown variable {variable!r} in prompt_variables",
                "prompt_variables",
                str(at),
                hint=f"known: {', '.join(names)}; keep: in source.yaml adds columns",
            )
    if variables.count(TEXT) != 1:
        declared.fault(
            f"prompt_variables must name {TEXT!r} once, not {variables.count(TEXT)} times",
            "prompt_variables",
            hint="it is the message itself",
        )


def _cut(declared: DeclaredFile, structure: str) -> list[str] | None:
    """The literals between the ``%s``, or None if there is a single percent sign."""
    literals = [""]
    at = 0
    for mark in _MARK.finditer(structure):
        literals[-1] += structure[at : mark.start()]
        at = mark.end()
        if mark[0] == "%s":
            literals.append("")
        elif mark[0] == "%%":
            literals[-1] += "%"
        else:
            declared.fault(
                f"prompt_structure contains {mark[0]!r}",
                "prompt_structure",
                hint="write %s for a variable and %% for a percent sign",
            )
            return None
    literals[-1] += structure[at:]
    return literals


def _literal(text: str) -> Any:
    pa = require("pyarrow", "records", "assembling records")
    return pa.scalar(text, pa.large_string())


def _shown_column(column: ArrowTable) -> ArrowTable:
    """:func:`show_value` of a column, as large strings."""
    pa = require("pyarrow", "records", "assembling records")
    compute = require("pyarrow.compute", "records", "assembling records")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_list(kind) and pa.types.is_string(kind.value_type):
        flat = compute.list_flatten(column)
        # an empty or blank text in a list would leave a comma behind
        if not flat.null_count and not compute.any(_blank(flat)).as_py():
            joined = compute.binary_join(column, _JOINED_BY)
            return compute.fill_null(compute.cast(joined, pa.large_string()), "")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        filled = compute.fill_null(compute.cast(column, pa.large_string()), "")
        if not compute.any(compute.and_(_blank(filled), compute.not_equal(filled, ""))).as_py():
            return filled
    return pa.array([show_value(value) for value in column.to_pylist()], pa.large_string())


def _blank(column: ArrowTable) -> ArrowTable:
    """Mask of texts that may be blank in Python; Arrow's definition of blanks differs."""
    compute = require("pyarrow.compute", "records", "assembling records")
    return compute.match_substring_regex(column, r"\A[\p{Z}\p{Cc}]*\z")
