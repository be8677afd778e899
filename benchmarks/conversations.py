"""Retrieval in conversations: last turn, whole conversation, and our offline condensing.

    python -m benchmarks.conversations             # development half
    python -m benchmarks.conversations --publish   # both halves -> docs/results/

MTRAG-UN (IBM/mt-rag-benchmark, Apache-2.0): turns of conversations with their gold passages. The
corpora behind it are not at hand, so the corpus is the passages of all its rows, one chunk each.
Only turns with gold passages count. Conversations are split in two halves by the hash of their id;
the weights of the condensing (``answer/_write.py``) were chosen on the development half.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from benchmarks.data_sets import DATA
from benchmarks.publish import Row as Line, Section, Table, publish
from benchmarks.retrieval import Corpus, opened
from ragwright.answer import Condensed, condense_by_rule
from ragwright.core import Chunk, Document, Row, Score, Span
from ragwright.flow import Flow, Message, Runner
from ragwright.index import IndexedDocument
from ragwright.measure import aggregate, parse_measures, retrieval_scores
from ragwright.retrieve import RetrieveOptions, Target, retrieve
from ragwright.testsets import Testset, read_rows

MEASURES = parse_measures("Recall@5, nDCG@5")
FILE = DATA / "mtrag" / "mtragun_reference.jsonl"

Wording = Callable[[Row], Condensed]
"""What is searched for in place of a row's last turn."""


def turns(row: Row) -> list[Message]:
    """The turns before a row's question."""
    return [Message(turn.role, turn.content) for turn in row.history]


def last_turn(row: Row) -> Condensed:
    """The question as it was asked."""
    return Condensed(row.user_input, "last turn")


def whole_conversation(row: Row) -> Condensed:
    """All turns of both sides as one text."""
    texts = [turn.content for turn in row.history]
    return Condensed("\n".join((*texts, row.user_input)), "whole conversation")


def condensed(row: Row) -> Condensed:
    """What ``eval`` and ``serve`` search for without a chat model."""
    return condense_by_rule(row.user_input, turns(row))


WORDINGS: Mapping[str, Wording] = {
    "last turn": last_turn,
    "whole conversation": whole_conversation,
    "offline condensing": condensed,
}


def in_half(row: Row) -> str:
    """``development`` or ``test``, by the hash of the conversation."""
    digest = sha256(str(row.metadata["conversation_id"]).encode()).hexdigest()
    return ("development", "test")[int(digest, 16) % 2]


def load(path: Path = FILE) -> tuple[tuple[Row, ...], tuple[IndexedDocument, ...]]:
    """The rows with gold passages, and every passage of the file as a document of one chunk."""
    passages: dict[str, tuple[str, str]] = {}
    for line in path.read_text("utf-8").split("\n"):
        for passage in json.loads(line or "{}").get("contexts", ()):
            known = passage["document_id"], (passage.get("title") or "", passage["text"].strip())
            passages.setdefault(*known)
    documents = []
    for name, (title, text) in passages.items():
        chunk = Chunk(f"{name}:0-{len(text)}", name, 0, Span(0, len(text)), text)
        documents.append(IndexedDocument(Document(name, name, text, title=title), (chunk,)))
    rows = read_rows(path, questions=True)
    return tuple(row for row in rows if row.reference_ids), tuple(documents)


def searched(row: Row, wording: Wording, target: Target, options: RetrieveOptions) -> Flow[Row]:
    """A row with the documents that one wording finds."""
    query = wording(row)
    reply = yield from retrieve(query.text, target, options, None, query.keywords)
    ranking = tuple(dict.fromkeys(hit.document_id for hit in reply.hits))
    return Row(
        row.id, row.user_input, reference_ids=row.reference_ids, retrieved_context_ids=ranking
    )


def figures(rows: Sequence[Row]) -> dict[str, float]:
    """Mean of each measure over answered rows."""

    def mean(scores: Sequence[Score]) -> float:
        return aggregate(scores).mean or 0.0

    return {
        str(measure): mean(
            [
                retrieval_scores(measure, row.retrieved_context_ids, row.reference_ids)
                for row in rows
            ]
        )
        for measure in MEASURES
    }


def tables(rows: Sequence[Row], documents: Sequence[IndexedDocument]) -> list[Table]:
    """Keyword search of all turns, and by class of turn."""
    corpus = Corpus(Testset("mtrag", tuple(rows)), tuple(documents), (), None, {})
    options = RetrieveOptions(search="keyword", top_k=5)
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(corpus, Path(folder)) as (routes, target),
        Runner(routes) as runner,
    ):
        by_wording = {
            name: list(runner.map(searched(row, wording, target, options) for row in rows))
            for name, wording in WORDINGS.items()
        }
    lines: list[Line] = [{"searched": name, **figures(r)} for name, r in by_wording.items()]
    return [Table(lines, f"keyword search, {len(rows)} turns"), by_class(rows, by_wording)]


def by_class(rows: Sequence[Row], by_wording: Mapping[str, Sequence[Row]]) -> Table:
    """Recall@5 of each wording by class of turn."""
    classes: dict[str, set[str]] = {}
    for row in rows:
        number = int(str(row.metadata["turn"]))
        names = (
            "first turn" if number == 1 else "turns 2-4" if number < 5 else "turn 5 and later",
            str(row.metadata["answerability"]),
            *(["stands alone by its words", "refers back"][not row.metadata["standalone"]],),
        )
        for name in names:
            classes.setdefault(name, set()).add(row.id)
    lines: list[Line] = []
    for name, ids in sorted(classes.items()):
        means = {
            wording: figures([row for row in results if row.id in ids])["Recall@5"]
            for wording, results in by_wording.items()
        }
        lines.append({"class": name, "turns": len(ids), **means})
    return Table(lines, "Recall@5 of keyword search by class of turn")


def main() -> None:
    """Measure the development half, or publish both."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--publish", action="store_true", help="both halves, write docs/results/")
    given = parser.parse_args()
    rows, documents = load()
    kept: list[Table] = []
    for half in ("test", "development") if given.publish else ("development",):
        own = [row for row in rows if in_half(row) == half]
        for table in tables(own, documents):
            kept.append(Table(table.rows, f"{half} half: {table.caption}"))
            print(kept[-1].caption)
            for line in table.rows:
                print("  ", *(f"{v:.3f}" if isinstance(v, float) else v for v in line.values()))
    if given.publish:
        notes = (
            f"{len(documents)} passages of all rows are the corpus; {len(rows)} turns have gold.",
            "The weights were chosen on the development half by keyword search; the test half was "
            "measured twice, for this page, and nothing was changed in between.",
            "No chat model rewrote a question here: tests do so with scripted replies.",
        )
        section = Section(
            "Conversations (MTRAG-UN)",
            kept,
            notes,
            "python -m benchmarks.conversations --publish",
            page="conversations",
        )
        print(publish("conversations", section))


if __name__ == "__main__":
    main()
