"""Testsets: rows with gold, and their loader; judgments in TREC's formats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TypeAlias, cast, get_args

import numpy as np

from ..core import Row, TestsetError, count_noun, text_hash, value_hash
from ._labels import drop_review, is_candidate, is_feedback
from ._records import lines_of, make_plain_row, objects_of
from ._rows import read_rows
from ._splits import (
    Openings,
    Split,
    assign_splits,
    find_shared_gold,
    names_splits,
    opening_note,
)


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        own: Persona -> the row with this question for the persona, in the order of the rows.
        elsewhere: Personas with rows of the same words, but other gold.
    """

    own: Mapping[str, Row]
    elsewhere: frozenset[str] = frozenset()

    @property
    def first(self) -> Row:
        """Its first row, used for personas without a row."""
        return next(iter(self.own.values()))

    def row_for(self, persona: str) -> Row | None:
        """Return a persona's row; None if its row with the same words has other gold."""
        if persona in self.elsewhere:
            return None
        return self.own.get(persona) or replace(self.first, persona_name=persona)


def questions_of(rows: Iterable[Row]) -> tuple[Sequence[Question], tuple[str, ...]]:
    """Return the questions of rows in order, with a note if rows only repeat another one.

    Rows of the same words for different personas are one question, each with the gold of its
    persona. A second row with the same words for the same persona is another question if its gold
    differs, else a repetition.
    """
    distinct: dict[tuple[str, str, str], Row] = {}
    rows = list(rows)
    for row in rows:
        spans = [asdict(span) for span in row.reference_spans]
        gold = [row.reference, row.reference_contexts, dict(row.reference_ids), spans]
        distinct.setdefault((_words_of(row), row.persona_name, value_hash(gold)), row)
    personas: dict[str, set[str]] = {}
    for words, persona, _ in distinct:
        personas.setdefault(words, set()).add(persona)
    questions = []
    for group in rows_by_question(distinct.values()):
        own = {row.persona_name: row for row in group}
        questions.append(Question(own, frozenset(personas[_words_of(group[0])] - own.keys())))
    if len(distinct) == len(rows):
        return questions, ()
    counts = f"{len(rows) - len(distinct)} of {len(rows)} rows"
    return questions, (f"{counts} repeat the question and gold of another row and are left out",)


def rows_by_question(rows: Iterable[Row]) -> Sequence[Sequence[Row]]:
    """Group rows by question, in the order of their first rows; none is left out.

    The n-th row of the same words for a persona belongs to the n-th question of these words.
    """
    groups: dict[tuple[str, int], list[Row]] = {}
    earlier: Counter[tuple[str, str]] = Counter()
    for row in rows:
        words = _words_of(row)
        key = (words, row.persona_name)
        groups.setdefault((words, earlier[key]), []).append(row)
        earlier[key] += 1
    return list(groups.values())


def _words_of(row: Row) -> str:
    """Return the question; after other turns the same words are another question."""
    return "\x00".join((row.user_input, *[turn.content for turn in row.history]))


_SHOWN = 5
"""Most ids in a note."""


@dataclass(frozen=True, slots=True)
class Testset:
    """Rows to evaluate on, in file order.

    Attributes:
        name: Address it was loaded from.
        rows: Rows, each id once.
        notes: Notes for users of the results: gold outside the corpus, a subset.
        split: The split of these rows.
        opened: Logged fingerprint of the confirm split, empty if it is closed.
    """

    __test__ = False  # the name is the field's; pytest must not collect it

    name: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    split: Split = "all"
    opened: str = ""

    @property
    def fingerprint(self) -> str:
        """Hash of the rows, without review marks; see :func:`rows_fingerprint`."""
        return rows_fingerprint(self.rows)

    @property
    def questions(self) -> int:
        """Number of questions; the rows that ask one for several personas count once."""
        return len(rows_by_question(self.rows))

    def subset(self, size: int, seed: int = 0) -> Testset:
        """Return a random choice of questions with all their rows, in file order, the same
        everywhere.

        The rows that ask one question for several personas are chosen together. A question is
        chosen by the hash of the seed and the id of its first row, so adding rows to the file or
        taking a larger subset keeps most of the subset.

        Raises:
            TestsetError: The size is below 1.
        """
        if size < 1:
            raise TestsetError(f"a subset of {size} questions", hint="ask for one or more")
        questions = rows_by_question(self.rows)
        if size >= len(questions):
            return self
        order = sorted(questions, key=lambda rows: text_hash(f"{seed}\x00{rows[0].id}"))
        chosen = {row.id for rows in order[:size] for row in rows}
        rows_text = f" ({len(chosen)} of {len(self.rows)} rows)" if len(chosen) > size else ""
        return replace(
            self,
            rows=tuple(row for row in self.rows if row.id in chosen),
            notes=(
                *self.notes,
                f"{size} of {len(questions)} questions{rows_text}, chosen with seed {seed}",
            ),
        )

    def asked_for(self, personas: Sequence[str]) -> Testset:
        """Repeat every question for each of these personas; unchanged without personas.

        A question that has a row for a persona keeps it and its gold; for other personas its first
        row is copied as ``ID for PERSONA``. Rows with the same words but other gold for the same
        persona are other questions; repeated rows are left out, and counted in a note.
        """
        if not personas:
            return self
        names = list(dict.fromkeys(personas))
        questions, notes = questions_of(self.rows)
        rows = [
            row if name in question.own else replace(row, id=f"{row.id} for {name}")
            for question in questions
            for name in names
            if (row := question.row_for(name)) is not None
        ]
        return replace(
            self,
            rows=tuple(rows),
            notes=(*self.notes, f"every question is asked for {', '.join(names)}", *notes),
        )


def rows_fingerprint(rows: Sequence[Row]) -> str:
    """Hash rows in their order, without review marks.

    Accepting a row does not change the hash; editing does.
    """
    return value_hash([make_plain_row(drop_review(row)) for row in rows])


def load_testset(
    address: str,
    *,
    split: str = "all",
    limit: int | None = None,
    seed: int = 0,
    openings: Openings | None = None,
) -> Testset:
    """Load the testset at an address; all gold is loaded here.

    Rejected rows are left out. The confirm split is returned only if the opening is logged; ``all``
    includes it if rows name splits.

    Args:
        address: ``beir:DIR/SPLIT``, or the path of a JSONL file of rows in
            ragas' names.
        split: ``all``, ``tune`` or ``confirm``; see :func:`assign_splits`.
        limit: Most questions, chosen at random with ``seed``; None for all.
        seed: Seed of that choice.
        openings: Log of openings of the confirm split, and the purpose.

    Raises:
        TestsetError: A file is missing or wrong (with file and line), the split is empty, or the
            confirm split was requested without ``openings``.
    """
    if split not in get_args(Split):
        raise TestsetError(f"unknown split {split!r}", hint=f"one of {', '.join(get_args(Split))}")
    chosen_split = cast("Split", split)
    if address.startswith("beir:"):
        testset = _beir_testset(address)
    else:
        testset = Testset(address, read_rows(address, questions=True))
    testset = _drop_rejected(testset)
    named = names_splits(testset.rows)
    if openings is None and (chosen_split == "confirm" or (chosen_split == "all" and named)):
        raise TestsetError(
            "opening the confirm split must be logged"
            if chosen_split == "confirm"
            else "the rows name splits, so split='all' includes the confirm split",
            where=address,
            hint="use split='tune'; or pass openings=Openings(path, purpose=...)",
        )
    splits = assign_splits(testset.rows)
    confirm = [row for row in testset.rows if splits[row.id] == "confirm"]
    testset = _rows_of_split(testset, chosen_split, splits)
    if limit is not None:
        testset = testset.subset(limit, seed)
    if openings is None or chosen_split == "tune" or not confirm:
        return testset
    opened = rows_fingerprint(confirm)
    count = sum(splits[row.id] == "confirm" for row in testset.rows)
    earlier = openings.record(address, opened, count)
    return replace(
        testset, notes=(*testset.notes, opening_note(earlier, opened, openings.path)), opened=opened
    )


def declares_splits(address: str) -> bool:
    """True if a row of the testset at an address names its split.

    Raises:
        TestsetError: As :func:`load_testset`.
    """
    return not address.startswith("beir:") and names_splits(read_rows(address, questions=True))


def _drop_rejected(testset: Testset) -> Testset:
    total = len(testset.rows)
    decided = [row for row in testset.rows if not is_candidate(row)]
    rows = tuple(row for row in decided if row.metadata.get("review") != "rejected")
    waiting, rejected = total - len(decided), len(decided) - len(rows)
    served = sum(map(is_feedback, rows))
    if not rows:
        problem = f"all {rejected} rows were rejected in review"
        if waiting:
            problem = f"{waiting} rows wait for review and {rejected} were rejected"
        raise TestsetError(
            f"{problem}; none is left",
            where=testset.name,
            hint="run `ragwright review` on it again, or write further rows",
        )
    notes = {
        f"{rejected} of {total} rows were rejected in review and are left out": rejected,
        f"{waiting} of {total} rows are feedback that waits for review: left out": waiting,
        f"{count_noun(served, 'row is', 'rows are')} from readers' feedback: readers saw only "
        "what the served configuration found, so comparisons favour it": served,
    }
    said = (note for note, count in notes.items() if count)
    return replace(testset, rows=rows, notes=(*testset.notes, *said))


def _rows_of_split(testset: Testset, chosen: Split, splits: dict[str, str]) -> Testset:
    if chosen == "all":
        return testset
    rows = tuple(row for row in testset.rows if splits[row.id] == chosen)
    counts = Counter(splits.values())
    if not rows:
        other = "confirm" if chosen == "tune" else "tune"
        raise TestsetError(
            f"the {chosen} split is empty: tune {counts['tune']} rows, confirm "
            f"{counts['confirm']} rows",
            where=testset.name,
            hint=f"rows with the same gold document stay together, and all are in {other}: add "
            "rows on other documents, write `split: tune` and `split: confirm` on the rows, or let "
            "`ragwright synth --from FILE` split rows with gold passages",
        )
    notes = [f"{chosen} split: {len(rows)} of {len(testset.rows)} rows"]
    if shared := find_shared_gold(testset.rows, splits):
        documents = count_noun(len(shared), "gold document is", "gold documents are")
        notes.append(
            f"{documents} in both splits, such as {', '.join(shared[:_SHOWN])}: results of the two "
            "splits are not independent"
        )
    return replace(testset, rows=rows, notes=(*testset.notes, *notes), split=chosen)


def _beir_testset(address: str) -> Testset:
    folder_name, _, split = address.removeprefix("beir:").replace("\\", "/").rpartition("/")
    folder = Path(folder_name)
    if not folder_name or not split:
        raise TestsetError(f"cannot read {address!r} as a testset", hint="write beir:DIR/SPLIT")
    qrels_file = folder / "qrels" / f"{split}.tsv"
    if not qrels_file.is_file():
        # The split is missing if its name is that of the folder.
        found = {path.stem for at in (folder, folder / split) for path in at.glob("qrels/*.tsv")}
        form = f"write beir:DIR/SPLIT; splits here: {', '.join(sorted(found))}"
        raise TestsetError(
            f"no split {split!r} in this BEIR folder",
            where=str(qrels_file),
            hint=form if found else "check the folder",
        )
    texts: dict[str, str] = {}
    for where, value in objects_of(folder / "queries.jsonl"):
        key, text = value.get("_id"), value.get("text")
        if not isinstance(key, str | int) or not isinstance(text, str):
            raise TestsetError(
                "the line has no _id and text", where=where, hint="write {_id, text}"
            )
        if str(key) in texts:
            raise TestsetError(
                f"query id {str(key)!r} occurs twice",
                where=where,
                hint="give each query its own id",
            )
        texts[str(key)] = text
    qrels = read_qrels(qrels_file)
    for query, _, _, where in judgments(qrels_file):
        if query not in texts:
            raise TestsetError(
                f"query {query!r} is judged but not in queries.jsonl",
                where=where,
                hint="use queries.jsonl and qrels from the same data set",
            )
    rows = tuple(
        Row(id=query, user_input=text, reference_ids=qrels[query])
        for query, text in texts.items()
        if query in qrels
    )
    return Testset(address, rows, _missing_documents(folder / "corpus.jsonl", qrels))


def _missing_documents(path: Path, qrels: Qrels) -> tuple[str, ...]:
    """Note judged documents that are not in the corpus, so that no search can find them."""
    if not path.is_file():
        return (f"no {path.name} in the folder: judged documents are not checked",)
    missing = dict.fromkeys(document for grades in qrels.values() for document in grades)
    judged = len(missing)
    for where, value in objects_of(path):
        if "_id" not in value:
            raise TestsetError("the line has no _id", where=where, hint="write {_id, title, text}")
        missing.pop(str(value["_id"]), None)
    if not missing:
        return ()
    first = next(iter(missing))
    if len(missing) == judged:
        raise TestsetError(
            f"none of the {judged} judged documents is in the corpus, for example {first!r}",
            where=str(path),
            hint="use corpus.jsonl and qrels from the same data set",
        )
    return (f"{len(missing)} of {judged} judged documents are not in the corpus, such as {first}",)


Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> grade."""

Run: TypeAlias = Mapping[str, tuple[tuple[str, float], ...]]
"""Query id -> (document id, score), best first."""

_HEADS = frozenset({"query-id", "query_id", "queryid", "qid", "query"})


def read_qrels(path: str | Path) -> Qrels:
    """Read judgments: ``query 0 document grade`` (TREC) or ``query document grade`` (BEIR).

    BEIR's columns are separated by tabs and may have a header line; lines that start with ``#``
    are comments. Queries and documents keep the order of the file.

    Raises:
        TestsetError: A line has other columns, a grade is not a whole number, or one
            document is judged twice for a query with different grades.
    """
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade, where in judgments(Path(path)):
        known = qrels.setdefault(query, {}).setdefault(document, grade)
        if known != grade:
            raise TestsetError(
                f"document {document!r} has grades {known} and {grade} for query {query!r}",
                where=where,
                hint="keep one of the two lines",
            )
    if not qrels:
        raise TestsetError("the file holds no judgments", where=str(path))
    return qrels


def judgments(path: Path) -> list[tuple[str, str, int, str]]:
    """Return (query id, document id, grade, ``file:line``) of every judgment in a file."""
    rows = []
    first = True
    for where, text in lines_of(path):
        if text.startswith("#"):
            continue
        fields = [field.strip() for field in text.split("\t")]
        if len(fields) != 3 or not all(fields):
            fields = text.split()
        if first and len(fields) == 3 and fields[0].lower() in _HEADS:
            first = False
            continue
        first = False
        if len(fields) == 4:
            del fields[1]
        if len(fields) != 3:
            raise TestsetError(
                f"{count_noun(len(fields), 'column')}; 3 or 4 are expected",
                where=where,
                hint="write query, document, grade with tabs, or TREC's query 0 document grade",
            )
        try:
            grade = int(fields[2])
        except ValueError as error:
            raise TestsetError(f"grade {fields[2]!r} is not a whole number", where=where) from error
        rows.append((fields[0], fields[1], grade, where))
    return rows


def read_run(path: str | Path) -> Run:
    """Read a run, ``query Q0 document rank score tag``, ordered as trec_eval orders it.

    The rank column is ignored: scores count, in single precision, highest first, and equal
    scores are ordered by document id, descending. This is the opposite of ragwright's tie rule, so
    that runs get the same figures as in trec_eval.

    Raises:
        TestsetError: A line has other columns, a score is not a number, or a document
            occurs twice for a query.
    """
    by_query: dict[str, dict[str, float]] = {}
    for where, text in lines_of(Path(path)):
        fields = text.split(maxsplit=5)  # the tag is the rest of the line
        if len(fields) != 6:
            raise TestsetError(
                f"{count_noun(len(fields), 'column')}; 6 are expected",
                where=where,
                hint="write query Q0 document rank score tag",
            )
        query, _, document, _, number, _ = fields
        try:
            score = float(np.float32(number))
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise TestsetError(f"score {number!r} is not a number", where=where)
        scores = by_query.setdefault(query, {})
        if document in scores:
            raise TestsetError(
                f"document {document!r} occurs twice for query {query!r}",
                where=where,
                hint="rank each document once",
            )
        scores[document] = score
    if not by_query:
        raise TestsetError("the file holds no ranking", where=str(path))
    return {
        query: tuple(sorted(scores.items(), key=lambda pair: (pair[1], pair[0]), reverse=True))
        for query, scores in by_query.items()
    }
