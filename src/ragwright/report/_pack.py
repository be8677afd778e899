"""Packed rows of a report: compressed blocks that are opened on demand.

A block is JSON, gzipped, in base64. Scores of all rows are included. The rest of a row (answer,
passages, prompt, judges' reasoning) is included entry by entry, in order, as long as it fits.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from ..core import Row, Score
from ..experiment import AnswerRecord, RowResult
from ._subject import ScoredRun

STATES = ("scored", "abstained", "not_applicable", "judge_invalid", "errored", "skipped")
"""States in the order of their letters in a block: ``abcdef``."""

_GROUP = 400_000
"""Approximate characters of the texts of a group of rows, which one click opens."""

_RANKED = 20
"""Most documents shown of a ranking without passages."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """All rows of a report.

    Attributes:
        blocks: Gzipped JSON in base64, by number.
        index: Positions of everything, as JSON-able values.
        left_out: Entry id -> number of its rows with scores only.
    """

    blocks: tuple[str, ...]
    index: Mapping[str, Any]
    left_out: Mapping[str, int]

    @property
    def size(self) -> int:
        """Characters of all blocks."""
        return sum(map(len, self.blocks))


def pack_rows(entries: Sequence[ScoredRun], measures: Sequence[str], room: int) -> PackedRows:
    """Pack the rows of entries.

    Args:
        entries: The most important first: their complete rows are included first.
        measures: Measures in order.
        room: Most characters of all blocks.
    """
    packer = _Packer(measures, room)
    for at, entry in enumerate(entries):
        packer.add(entry, len(entries) - at - 1)
    return packer.packed()


def unpack_block(block: str) -> Any:
    """Return the JSON value of a block."""
    return json.loads(gzip.decompress(base64.b64decode(block)))


@dataclass(slots=True)
class _Packer:
    """State of packing."""

    measures: Sequence[str]
    room: int
    blocks: list[str] = field(default_factory=list)
    spent: int = 0
    score_size: int = 0
    rows: dict[tuple[str, str, str], int] = field(default_factory=dict)
    by_id: dict[str, int] = field(default_factory=dict)
    questions: list[list[Any]] = field(default_factory=list)
    question_size: int = 0
    entries: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    full: bool = True

    def add(self, entry: ScoredRun, after: int) -> None:
        """Add the rows of an entry; ``after`` entries follow."""
        scores: list[tuple[int, Sequence[Score]]] = []
        groups: list[list[RowResult]] = [[]]
        size = 0
        for result in entry.read(self.full):
            scores.append((self._row(result), result.scores))
            if self.full:
                size += _weight(result)
                groups[-1].append(result)
                if size > _GROUP:
                    groups.append([])
                    size = 0
        block = _block(self._score_columns(scores))
        self.score_size = max(self.score_size, len(block))
        packed: dict[str, Any] = {"id": entry.id, "scores": self._keep(block), "rows": []}
        first = 0
        for group in groups:
            place = self._group(group, after) if group else None
            if place is not None:
                packed["rows"].append([first, len(group), place])
            elif group:
                self.full = False
                break
            first += len(group)
        if first < len(scores):
            self.left_out[entry.id] = len(scores) - first
        self.entries.append(packed)

    def packed(self) -> PackedRows:
        """Return everything added so far."""
        index = {
            "measures": list(self.measures),
            "rows": self._keep(_block(self.questions)),
            "entries": self.entries,
        }
        return PackedRows(tuple(self.blocks), index, self.left_out)

    def _row(self, result: RowResult) -> int:
        """Position of the question in the table of questions; equal ones share an entry.

        A failed row has only its id: its question comes from entries where it did not fail.
        """
        row, name = result.row, result.row_id
        first = self.by_id.get(name)
        if row is None and first is not None:
            return first
        key = (name, "", "") if row is None else (name, row.user_input, row.persona_name)
        if key in self.rows:
            return self.rows[key]
        if first is not None and (name, "", "") in self.rows:
            del self.rows[name, "", ""]
            place, self.questions[first] = first, _question(result)
        else:
            place = len(self.questions)
            self.questions.append(_question(result))
            self.question_size += sum(map(len, self.questions[-1]))
        self.rows[key] = place
        self.by_id.setdefault(name, place)
        return place

    def _score_columns(self, scores: Sequence[tuple[int, Sequence[Score]]]) -> dict[str, Any]:
        """Positions of the questions; per measure its values, and one letter per row: its state."""
        columns = []
        rows = [{score.measure: score for score in row} for _, row in scores]
        for measure in self.measures:
            column = [row.get(measure, Score(measure, "skipped")) for row in rows]
            values = [None if score.value is None else _number(score.value) for score in column]
            states = (chr(ord("a") + STATES.index(score.state)) for score in column)
            columns.append([values, "".join(states)])
        return {"r": [place for place, _ in scores], "m": columns}

    def _group(self, group: Sequence[RowResult], after: int) -> int | None:
        """Include complete rows and return their block; None, with nothing included, if too big."""
        details = _block([self._detail(result) for result in group])
        needed = len(details) + after * self.score_size + self.question_size // 2
        return None if self.spent + needed > self.room else self._keep(details)

    def _detail(self, result: RowResult) -> list[Any]:
        """``[answer, about, hits, prompt, usage, reasons]`` of a row."""
        row, answer = result.row, result.made
        reasons = {}
        for score in result.scores:
            if score.reason or score.detail or score.parts:
                at = self.measures.index(score.measure) if score.measure in self.measures else -1
                reasons[str(at)] = [score.reason, score.detail, dict(score.parts)]
        if row is None:
            return [None, {}, [[name] for name in result.ranking[:_RANKED]], [], None, reasons]
        about = {
            name: value
            for name, value in row.metadata.items()
            if value is not None and name not in {"retrieved", "hits"}
        }
        prompt = [] if answer is None else [list(message) for message in answer.prompt]
        usage = None if answer is None else _usage(answer)
        return [row.response, about, _hits(row, result), prompt, usage, reasons]

    def _keep(self, block: str) -> int:
        self.blocks.append(block)
        self.spent += len(block)
        return len(self.blocks) - 1


def _hits(row: Row, result: RowResult) -> list[list[Any]]:
    """``[document, text, start, end, source, page, score]`` of each passage.

    What is not known is left out at the end.
    """
    if not row.retrieved_contexts:
        return [[name] for name in result.ranking[:_RANKED]]
    # Only newer runs store the place and score of a passage.
    places: Sequence[Sequence[Any]] = getattr(result.made, "hits", ())
    hits = []
    for text, span, name, place in zip_longest(
        row.retrieved_contexts, row.retrieved_spans, row.retrieved_context_ids, places
    ):
        if text is not None:
            ends = (None, None) if span is None else (span.start, span.end)
            hits.append([span.document_id if span else name or "", text, *ends, *(place or ())])
    return hits


def _question(result: RowResult) -> list[Any]:
    """``[id, question, persona, gold]``."""
    row = result.row
    if row is None:
        return [result.row_id, "", "", ""]
    gold: Any = row.reference
    if not gold and row.reference_spans:
        gold = " … ".join(span.text for span in row.reference_spans if span.text)
    gold = gold or ", ".join(sorted(row.reference_ids))
    return [result.row_id, row.user_input, row.persona_name, gold]


def _usage(answer: AnswerRecord) -> dict[str, Any]:
    """Usage and notes of an answer."""
    usage = answer.usage
    return {
        "calls": usage.calls,
        "prompt tokens": usage.prompt_tokens,
        "completion tokens": usage.completion_tokens,
        "cost": usage.cost,
        "seconds": round(usage.seconds, 3),
        "context tokens": answer.context_tokens,
        "notes": list(answer.notes),
    }


def _weight(result: RowResult) -> int:
    """Approximate characters of a row."""
    row = result.row
    size = 200 + sum(len(score.detail) for score in result.scores)
    if row is not None:
        size += len(row.response or "") + sum(map(len, row.retrieved_contexts))
    return size


def _number(value: float) -> float | int:
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def _block(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    data = gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)
    return base64.b64encode(data).decode("ascii")
