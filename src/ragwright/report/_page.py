"""One HTML file with everything: style, scripts, charts, rows; it needs no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from typing import Any

from ..core import Row, Score, count_noun
from ..experiment import RowResult
from ._charts import DARK, LIGHT, theme_data
from ._headline import Headline
from ._subject import ScoredRun
from ._text import ResultBlock

_LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-embed.min.js")

_MOST = 40
"""Lines of a table that are not folded."""


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of a page.

    Attributes:
        name: Its id, part of links.
        title: Its heading.
        note: A sentence below the heading.
        blocks: Its tables and charts.
        sentences: Its text.
    """

    name: str
    title: str
    note: str = ""
    blocks: Sequence[ResultBlock] = ()
    sentences: Sequence[str] = ()


def stylesheet() -> str:
    """Return the style of reports and of the server's pages."""
    return report_asset("report.css")


def formatting() -> str:
    """Return the script that shows Markdown in texts of documents, on the server's pages too."""
    return report_asset("formatted.js")


def write_page(
    top: PageSection,
    verdict: Headline,
    sections: Sequence[PageSection],
    *,
    facts: Mapping[str, str],
    packed: Sequence[str] = (),
    data: Mapping[str, Any] | None = None,
    home: str = "",
) -> str:
    """Return a page: the verdict with its evidence, the blocks and notes of ``top``, sections."""
    script, library = formatting() + report_asset("report.js"), _join_libraries()
    drawn = [block for section in sections for block in section.blocks if block.spec]
    text: str = _template().render(
        top=top,
        verdict=verdict,
        home=home,
        sections=sections,
        facts=facts,
        packed=packed,
        data={
            **dict.fromkeys(("kind", "incumbent", "best"), ""),
            "measures": [],
            **{name: {} for name in ("scales", "labels", "settings")},
            "index": {"rows": 0, "entries": []},
            **(data or {}),
            "states": list(STATES),
            "charts": {block.name: block.spec for block in drawn},
            "themes": {"light": theme_data(LIGHT), "dark": theme_data(DARK)},
        },
        policy="default-src 'none'; "
        f"script-src {_hash_source(script)} {_hash_source(library)}; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'",
        style=stylesheet(),
        script=script,
        library=_pack_library(),
        licences=report_asset("VEGA-LICENSES.txt"),
    )
    # Characters that cannot be encoded become "?".
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"


@cache
def _template() -> Any:
    from jinja2 import DictLoader, Environment, StrictUndefined

    environment = Environment(
        loader=DictLoader({"page.html": report_asset("page.html")}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    form = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    environment.policies["json.dumps_kwargs"] = form
    environment.globals.update(counted=count_noun, most=_MOST)
    return environment.get_template("page.html")


@cache
def _join_libraries() -> str:
    """The drawing libraries as one script, run only when a chart comes into view."""
    return "\n;\n".join(map(report_asset, _LIBRARIES))


@cache
def _pack_library() -> str:
    packed = gzip.compress(_join_libraries().encode(), 9, mtime=0)
    return base64.b64encode(packed).decode("ascii")


@cache
def report_asset(name: str) -> str:
    """Return a file of the reports' data as text."""
    return (files("ragwright.report") / "data" / name).read_text("utf-8")


def _hash_source(script: str) -> str:
    """The only script that the policy allows: exactly this text."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


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
    """

    blocks: tuple[str, ...]
    index: Mapping[str, Any]


def pack_rows(
    entries: Sequence[ScoredRun], measures: Sequence[str], whole: Collection[str]
) -> PackedRows:
    """Pack the rows of entries.

    Args:
        entries: Entries with rows.
        measures: Measures in order.
        whole: Ids of the entries whose rows keep their texts; the others have scores only.
    """
    packer = _Packer(measures)
    packed = [packer.add(entry, entry.id in whole) for entry in entries]
    index = {
        "measures": list(measures),
        "rows": packer.keep(_pack_block(packer.questions)),
        "entries": packed,
    }
    return PackedRows(tuple(packer.blocks), index)


@dataclass(slots=True)
class _Packer:
    measures: Sequence[str]
    blocks: list[str] = field(default_factory=list)
    places: dict[tuple[str, ...], int] = field(default_factory=dict)
    questions: list[list[str]] = field(default_factory=list)

    def add(self, entry: ScoredRun, whole: bool) -> dict[str, Any]:
        """Add the rows of an entry, with their texts if ``whole``; return where they are."""
        places: list[int] = []
        scores: list[Sequence[Score]] = []
        groups: list[list[RowResult]] = [[]]
        size = 0
        for result in entry.read():
            if size > _GROUP:
                groups.append([])
                size = 0
            places.append(self.place(result))
            scores.append(result.scores)
            groups[-1].append(result)
            size += _count_characters(result)
        block = self.keep(_pack_block({"r": places, "m": self._list_columns(scores)}))
        rows, first = [], 0
        for group in groups if whole else ():
            details = self.keep(_pack_block([self._list_details(result) for result in group]))
            rows.append([first, len(group), details])
            first += len(group)
        return {"id": entry.id, "scores": block, "rows": rows}

    def place(self, result: RowResult) -> int:
        """Position of the question in the table of questions; equal ones share an entry.

        A failed row has only its id: its question comes from entries where it did not fail.
        """
        row, name = result.row, result.row_id
        first = self.places.get((name,))
        if first is not None and (row is None or not self.questions[first][1]):
            if row is not None:
                self.questions[first] = _describe_question(name, row)
            return first
        key = (name, "" if row is None else row.user_input, "" if row is None else row.persona_name)
        if key not in self.places:
            self.places[key] = len(self.questions)
            known = [name, "", "", ""] if row is None else _describe_question(name, row)
            self.questions.append(known)
        return (
            self.places.setdefault((name,), self.places[key]) if first is None else self.places[key]
        )

    def keep(self, block: str) -> int:
        """Add a block, and return its number."""
        self.blocks.append(block)
        return len(self.blocks) - 1

    def _list_columns(self, scores: Sequence[Sequence[Score]]) -> list[list[Any]]:
        """Per measure its values, and one letter per row: its state."""
        columns = []
        rows = [{score.measure: score for score in row} for row in scores]
        for measure in self.measures:
            column = [row.get(measure, Score(measure, "skipped")) for row in rows]
            values = [None if score.value is None else _round(score.value) for score in column]
            states = (chr(ord("a") + STATES.index(score.state)) for score in column)
            columns.append([values, "".join(states)])
        return columns

    def _list_details(self, result: RowResult) -> list[Any]:
        """``[answer, about, hits, prompt, usage, reasons]`` of a row."""
        row, answer = result.row, result.made
        at = {measure: str(number) for number, measure in enumerate(self.measures)}
        reasons = {
            at.get(score.measure, "-1"): [score.reason, score.detail, dict(score.parts)]
            for score in result.scores
            if score.reason or score.detail or score.parts
        }
        if row is None:
            return [None, {}, [[name] for name in result.ranking[:_RANKED]], [], None, reasons]
        about = {
            name: value
            for name, value in row.metadata.items()
            if value is not None and name not in {"retrieved", "hits"}
        }
        prompt = [] if answer is None else [list(message) for message in answer.prompt]
        usage = answer and {
            "calls": answer.usage.calls,
            "prompt tokens": answer.usage.prompt_tokens,
            "completion tokens": answer.usage.completion_tokens,
            "cost": answer.usage.cost,
            "seconds": round(answer.usage.seconds, 3),
            "context tokens": answer.context_tokens,
            "notes": list(answer.notes),
        }
        return [row.response, about, _list_hits(row, result), prompt, usage, reasons]


def _list_hits(row: Row, result: RowResult) -> list[list[Any]]:
    """``[document, text, start, end, source, page, score]`` of each passage.

    What is not known is left out at the end.
    """
    if not row.retrieved_contexts:
        return [[name] for name in result.ranking[:_RANKED]]
    # Only newer runs store the place and score of a passage.
    places: Sequence[Sequence[Any]] = getattr(result.made, "hits", ())
    lists = (row.retrieved_contexts, row.retrieved_spans, row.retrieved_context_ids, places)
    return [
        [
            *(span.document_id if span else name or "", text),
            *((span.start, span.end) if span else (None, None)),
            *(place or ()),
        ]
        for text, span, name, place in zip_longest(*lists)
        if text is not None
    ]


def _describe_question(name: str, row: Row) -> list[str]:
    """``[id, question, persona, gold]``."""
    quoted = " … ".join(span.text for span in row.reference_spans if span.text)
    gold = row.reference or quoted or ", ".join(sorted(row.reference_ids))
    return [name, row.user_input, row.persona_name, gold]


def _count_characters(result: RowResult) -> int:
    row = result.row
    texts = () if row is None else (row.response or "", *row.retrieved_contexts)
    return 200 + sum(len(score.detail) for score in result.scores) + sum(map(len, texts))


def _round(value: float) -> float | int:
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) else rounded


def _pack_block(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    data = gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)
    return base64.b64encode(data).decode("ascii")
