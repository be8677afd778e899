"""Subjects of reports made up in memory, for the tests of this room."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ragwright.core import GoldSpan, Row, Score, Usage
from ragwright.experiment import AnswerRecord, RowResult
from ragwright.measure import aggregate
from ragwright.report import Board, ScoredRun, Subject

MEASURES = ("TokenF1", "Faithfulness")
HOSTILE = (
    "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 2'>"
    "\u2028\u2029\u202edetrevni &lt;b&gt; {{ 7 * 7 }} ${window.broken = 3} \x00 \ud800 -->"
)
"""What a document may hold to break out of a page, or to turn it around."""


def _made(prompt: tuple[tuple[str, str], ...]) -> AnswerRecord:
    return AnswerRecord(prompt, Usage(1, 10, 5, 0.002, 0.5), context_tokens=40)


def result(at: int, values: Sequence[float | None], text: str = "", made: bool = True) -> RowResult:
    """A row with an answer, two passages and a prompt around them."""
    passages = tuple(
        f"Passage {n} for question {at}, long enough to be kept once. {text}" for n in range(2)
    )
    question = f"What is said about number {at}? {text}"
    row = Row(
        f"q{at}",
        question,
        f"The answer to {at}, as it was written down. {text}",
        f"The gold of {at} {text}",
        passages,
        retrieved_context_ids=("docs/a.md", "docs/b.md"),
        retrieved_spans=tuple(
            GoldSpan(f"docs/{n}.md", 0, len(text), text)
            for n, text in zip("ab", passages, strict=True)
        ),
        persona_name=("engineer", "marketing")[at % 2],
        metadata={"topic": text or "numbers"},
    )
    scores = tuple(
        Score(name, "scored", value, detail=f"The judge says of {at}: {text or 'well done'}.")
        if value is not None
        else Score(name, "judge_invalid", reason=f"no number in it {text}")
        for name, value in zip(MEASURES, values, strict=True)
    )
    prompt = (
        ("system", f"You answer.\nUse only the context.\n{text}"),
        ("user", f"[1] a\n{passages[0].strip()}\n\n[2] b\n{passages[1].strip()}\n\n{question}"),
    )
    return RowResult(row.id, ("docs/a.md",), scores, row, _made(prompt) if made else None)


def reads(rows: Sequence[RowResult]) -> Iterable[RowResult]:
    return rows


def entry(
    name: str,
    rows: Sequence[RowResult],
    values: Mapping[str, object] | None = None,
    facts: Mapping[str, float] | None = None,
) -> ScoredRun:
    columns = zip(*(row.scores for row in rows), strict=True) if rows else ()
    return ScoredRun(
        name,
        tuple(aggregate(column) for column in columns),
        values=values or {},
        rows=len(rows),
        facts=facts or {},
        run=f"run-{name}",
        read=partial(reads, rows),
    )


@dataclass
class MakeStudy:
    """Builds a study of trials over chunk.size, retrieve.top_k and a named part."""

    rows: int = 6
    text: str = ""
    value: Callable[[int, int], Sequence[float | None]] = field(
        default=lambda trial, at: (round((trial * 7 + at * 3) % 11 / 10, 6), float(1 + at % 5))
    )

    def __call__(self, trials: int = 8) -> Subject:
        entries = []
        for number in range(trials):
            values = (
                {}
                if not number
                else {
                    "chunk.size": (100, 400)[number % 2],
                    "retrieve.top_k": (2, 4, 8)[number % 3],
                    "prompt.preset": ("complete", f"bare {self.text}".strip())[number // 2 % 2],
                }
            )
            rows = [result(at, self.value(number, at), self.text) for at in range(self.rows)]
            facts = {"cost": number / 100, "seconds": 1.0, "context_tokens": 100.0 * number}
            entries.append(entry(f"T{number:03d}", rows, values, facts))
        order = sorted(entries, key=lambda one: (-(one.value("TokenF1") or 0), one.id))
        return Subject(
            f"Study made up {self.text}",
            "study",
            tuple(entries),
            (Board(tuple(one.id for one in order)),),
            "TokenF1",
            MEASURES,
            {"testset": f"made up {self.text}", "run": "run-1"},
            "T000",
            openings=0,
        )


def embedded_data(document: str) -> dict[str, Any]:
    """What a report file's scripts read: entries, measures, charts, where rows are."""
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', document)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def embedded_blocks(document: str) -> list[str]:
    return re.findall(r'<script type="text/gzip-base64" id="b\d+">(.*?)</script>', document)


def unpack_block(block: str) -> Any:
    """The rows of a block, as the script of the page reads them."""
    return json.loads(gzip.decompress(base64.b64decode(block)))
