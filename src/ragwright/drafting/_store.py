"""The table of outputs: every text and prompt, in one SQLite file for other programs too.

Append-only, except for forgetting. A batch is one transaction: complete or absent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..core import ConfigError, Hit, StoreError, Usage, canonical_json, value_hash, well_formed
from ..ledger import EARLIER, Connection
from ._records import (
    DraftBatch,
    Feedback,
    FeedbackVerdict,
    NewBatch,
    Origin,
    Output,
    OutputBatch,
    OutputHit,
    OutputQuery,
    draft_outputs,
    request_hash,
)
from ._scores import OutputTable, ServedScores

SCORES = (-1.0, 100.0)
"""Least and highest score of feedback: the scales of measures, and percent."""

_OF_A_BATCH = (
    "feedback", "output_names", "scores", "uses", "hits", "items", "answer_texts", "batches",
)  # fmt: skip
"""Tables with the rows of a batch, in the order in which they can be deleted."""

_USAGE = ("calls", "prompt_tokens", "completion_tokens", "cost", "seconds")
_COLUMN_NAMES = (
    *("id", "batch", "at", "kind", "source", "model", "text", "prompt", "marks", *_USAGE),
    *("details", "client", "request", "configuration", "served", "scope", "verdict", "score"),
    "note",
)
_COLUMNS = ", ".join(_COLUMN_NAMES)


class Outputs(OutputTable):
    """All outputs of a project in one SQLite file; several processes may write it."""

    @property
    def scores(self) -> ServedScores:
        """Scores of the served answers among them."""
        return ServedScores(self)

    # -- writing ---------------------------------------------------------------------------

    def require_writable(self) -> None:
        """Refuse work whose results could not be stored.

        Raises:
            StoreError: The file cannot be written.
        """
        self.database.require_writable()

    def save(self, batch: DraftBatch, origin: Origin | None = None) -> int:
        """Store a batch of drafts, as :meth:`add`."""
        return self.add(draft_outputs(batch), origin)

    def drop_answers(self, days: int) -> int:
        """Delete served answers older than some days, with their feedback and scores.

        Returns the number of answers; drafts stay.
        """
        aged = "SELECT batch FROM batches WHERE kind = 'answer' AND at < ?"
        before = (self.now(-days * 86_400.0),)
        with self.database.transaction() as db:
            of_feedback = f"SELECT number FROM feedback WHERE batch IN ({aged})"  # noqa: S608
            db.execute(f"DELETE FROM corrections WHERE number IN ({of_feedback})", before)  # noqa: S608
            for table in _OF_A_BATCH:
                cursor = db.execute(f"DELETE FROM {table} WHERE batch IN ({aged})", before)  # noqa: S608
        return int(cursor.rowcount)

    def add(self, batch: NewBatch, origin: Origin | None = None) -> int:
        """Store a batch in one transaction; return its number, one more than the last.

        Raises:
            StoreBusyError: Another process holds the file.
            StoreFullError: The disk is full; nothing of the batch is stored.
        """
        batch_origin = origin or Origin()
        documents = {hit.chunk_id: hit.document_id for hit in batch.hits}
        with self.database.transaction() as db:
            if batch_origin.configuration:
                db.execute(
                    "INSERT INTO configurations VALUES (?, ?) ON CONFLICT DO NOTHING",
                    (batch_origin.configuration, canonical_json(batch_origin.settings)),
                )
            cursor = db.execute(
                "INSERT INTO batches (at, kind, client, request, asked, snapshot, configuration, "
                "served, scope, details, prompt_tokens, completion_tokens, cost, seconds, calls) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING batch",
                (self.now(), *_batch_values(batch, batch_origin)),
            )
            number = int(cursor.fetchone()[0])
            outputs = [
                ((number, kind, position), output)
                for kind in ("prompt", "text")
                for position, output in enumerate((o for o in batch.outputs if o.kind == kind), 1)
            ]
            db.executemany(
                "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [_item_values(key, output) for key, output in outputs],
            )
            # The id of a chunk begins with that of its document.
            db.executemany(
                "INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (documents.get(chunk) or chunk.rpartition(":")[0] or chunk, *key, n, chunk)
                    for key, output in outputs
                    for n, chunk in enumerate(output.uses)
                ],
            )
            db.executemany(
                "INSERT INTO hits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [_hit_values(number, hit) for hit in batch.hits],
            )
            if batch.earlier is not None:
                db.executemany(
                    "INSERT INTO uses VALUES (?, ?, ?, 0, ?, ?)",
                    [
                        (document, number, EARLIER, n, chunk)
                        for n, (document, chunk) in enumerate(batch.earlier or (("", ""),))
                    ],
                )
            db.executemany(
                "INSERT INTO answer_texts VALUES (?, ?) ON CONFLICT DO NOTHING",
                [(_sent_hash(batch.client, text), number) for text in batch.sent],
            )
        return number

    def give_name(self, output: str, name: str, by: str) -> None:
        """Name an output by the id that its requester got.

        Raises:
            StoreError: The output does not exist.
        """
        with self.database.transaction() as db:
            db.execute(
                "INSERT INTO output_names VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
                "batch = excluded.batch, kind = excluded.kind, position = excluded.position, "
                '"by" = excluded."by"',
                (name, *self._key(output, db), by),
            )

    def named(self, name: str) -> tuple[str, str] | None:
        """Return the id of the output with a name, and its requester; None if there is none."""
        rows = self.select(f'SELECT {_ID}, "by" FROM output_names WHERE name = ?', (name,))  # noqa: S608
        return (rows[0][0], rows[0][1]) if rows else None

    def of_person(self, person: str) -> list[tuple[str, str]]:
        """Return what a person asked for or rated: id of the text and question.

        The question is empty for a draft, and for an answer that another person asked for.
        """
        own = 'EXISTS (SELECT 1 FROM output_names n WHERE n.batch = b.batch AND n."by" = ?)'
        rated = (
            "EXISTS (SELECT 1 FROM feedback f WHERE f.batch = i.batch AND f.kind = i.kind "
            'AND f.position = i.position AND f."by" = ?)'
        )
        rows = self.select(
            f"SELECT i.batch || '.' || i.position, CASE WHEN {own} "  # noqa: S608
            "THEN coalesce(json_extract(b.request, '$.question'), '') ELSE '' END FROM items i "
            f"JOIN batches b ON b.batch = i.batch WHERE i.kind = 'text' AND ({own} OR {rated})",
            (person,) * 3,
        )
        return [(name, str(question)) for name, question in rows]

    def respond(
        self,
        output: str,
        *,
        by: str,
        verdict: FeedbackVerdict = "",
        score: float | None = None,
        note: str = "",
        correction: str = "",
        passages: Sequence[int] = (),
    ) -> Feedback:
        """Store feedback on a text; earlier feedback is kept.

        ``correction`` is the answer as it should be; ``passages`` are numbers of citations of the
        answer that hold what was asked for.

        Raises:
            StoreError: The output does not exist.
            ConfigError: It is empty, the score is outside :data:`SCORES`, the output is a prompt,
                or it has no such citation.
        """
        correction, passages = correction.strip(), tuple(dict.fromkeys(passages))
        if not (verdict or note.strip() or correction or passages) and score is None:
            raise ConfigError(
                "the feedback is empty",
                hint="accept, reject, give a score, a correction, or leave a note",
            )
        low, high = SCORES
        if score is not None and not low <= score <= high:
            raise ConfigError(
                f"{score:g} is not a score",
                hint=f"a number from {low:g} to {high:g}, on the scale of a measure",
            )
        at = self.now()
        with self.database.transaction() as db:
            key = self._key(output, db)
            if key[1] == "prompt":
                raise ConfigError(
                    f"{output} is a prompt; feedback is given on texts",
                    hint=f"give a text of it: `ragwright outputs show {key[0]}` lists them",
                )
            _require_citations(db, key[0], output, passages)
            number = db.execute(
                'INSERT INTO feedback (batch, kind, position, at, "by", verdict, score, note) '
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
                (*key, at, well_formed(by), verdict, score, well_formed(note)),
            ).fetchone()[0]
            if correction or passages:
                db.execute(
                    "INSERT INTO corrections VALUES (?, ?, ?)",
                    (number, well_formed(correction), json.dumps(passages)),
                )
        return Feedback(output, at, by, verdict, score, note, correction, passages)

    # -- reading ---------------------------------------------------------------------------

    def find(
        self,
        query: OutputQuery | None = None,
        *,
        limit: int | None = None,
        offset: int = 0,
        newest: bool = False,
        worst_by: str = "",
        higher_is_better: bool = True,
    ) -> Iterator[Output]:
        """Yield the outputs of a query, oldest first, as they were when reading began.

        Args:
            query: By default the outputs without a tenant, as without a scope.
            limit: Most outputs; None for all.
            offset: Outputs to leave out before them.
            newest: The newest first.
            worst_by: Measure by whose scores the worst are first; outputs without a score are last.
            higher_is_better: True if a low score of that measure is bad.
        """
        where, values = _where_clause(query or OutputQuery())
        text, by = f"SELECT {_COLUMNS} FROM outputs", "batch, kind, position"  # noqa: S608
        if newest or worst_by:
            by = "batch DESC, kind DESC, position"
        if worst_by:
            text += (
                " LEFT JOIN (SELECT id AS scored_id, value AS scored_value FROM scored"
                " WHERE measure = ?) AS of_measure ON scored_id = id"
            )
            direction = "ASC" if higher_is_better else "DESC"
            by = f"scored_value IS NULL, scored_value {direction}, {by}"
            values = [worst_by, *values]
        text += f" WHERE {where} ORDER BY {by}"
        if limit is not None:
            text, values = f"{text} LIMIT ? OFFSET ?", [*values, limit, offset]
        with self.reading() as db:
            yield from map(_output_of_row, self.database.stream(db, text, values))

    def count(self, query: OutputQuery | None = None) -> int:
        """Count the outputs of a query; without one as :meth:`find`."""
        where, values = _where_clause(query or OutputQuery())
        return int(self.select(f"SELECT count(*) FROM outputs WHERE {where}", values)[0][0])  # noqa: S608

    def keys(self, query: OutputQuery) -> list[tuple[str, str]]:
        """Return (id, hash of the request) of the outputs of a query, oldest first."""
        where, values = _where_clause(query)
        text = f"SELECT id, asked FROM outputs WHERE {where} ORDER BY batch, kind, position"  # noqa: S608
        return [(row[0], row[1]) for row in self.select(text, values)]

    def get(self, output: str) -> Output:
        """Return an output by its id.

        Raises:
            StoreError: There is none.
        """
        (row,) = self.select(
            f"SELECT {_COLUMNS} FROM outputs WHERE batch = ? AND kind = ? AND position = ?",  # noqa: S608
            self._key(output),
        )
        return _output_of_row(row)

    def used(self, output: str) -> tuple[OutputHit, ...]:
        """Return the hits used for an output, in the order of its prompt."""
        return self._hits(
            "SELECT coalesce(h.rank, 0), u.document_id, u.chunk_id, coalesce(h.score, 0), "
            "h.weight, coalesce(h.met, '[]'), coalesce(h.missed, '[]'), coalesce(h.text, '') "
            "FROM uses u LEFT JOIN hits h ON h.batch = u.batch AND h.chunk_id = u.chunk_id "
            "WHERE u.batch = ? AND u.kind = ? AND u.position = ? ORDER BY u.ordinal",
            self._key(output),
        )

    def sources_of_texts(
        self, client: str, texts: Sequence[str]
    ) -> tuple[tuple[str, str], ...] | None:
        """Document and chunk of the passages that answers to a client were made from.

        Args:
            client: The client.
            texts: The answers as the client sends them back.

        Returns:
            Passages of all answers with these texts, those of the answers before them included;
            None where nobody knows those of one of them.
        """
        passages: set[tuple[str, str]] = set()
        for text in dict.fromkeys(texts):
            batches = self.select(
                "SELECT b.batch, b.request FROM answer_texts t JOIN batches b "
                "ON b.batch = t.batch WHERE t.text = ?",
                (_sent_hash(client, text),),
            )
            for batch, request in batches:
                uses = self.select(
                    "SELECT document_id, chunk_id, kind FROM uses WHERE batch = ?", (batch,)
                )
                if "asked_before" in json.loads(request) and all(u[2] != EARLIER for u in uses):
                    return None
                passages |= {(document, chunk) for document, chunk, _ in uses if document}
            if not batches:
                return None
        return tuple(sorted(passages))

    def batch(self, number: int) -> OutputBatch:
        """Return a complete batch.

        Raises:
            StoreError: There is no batch with that number.
        """
        rows = self.select(
            "SELECT at, kind, client, request, snapshot, configuration, served, scope, calls, "
            "prompt_tokens, completion_tokens, cost, seconds, details FROM batches "
            "WHERE batch = ?",
            (number,),
        )
        if not rows:
            raise self._missing_error(f"no batch {number}")
        row = rows[0]
        hits = self._hits(
            "SELECT rank, document_id, chunk_id, score, weight, met, missed, text FROM hits "
            "WHERE batch = ? ORDER BY rank",
            (number,),
        )
        outputs = tuple(self.find(OutputQuery(batch=number, scope=None)))
        facts = [number, *row[:3], json.loads(row[3]), *row[4:8]]
        feedback = self._feedback("batch = ?", (number,))
        facts += [Usage(*row[8:13]), json.loads(row[13]), outputs, hits, feedback]
        return OutputBatch(*facts)

    def feedback_on_answers(self, scope: str) -> tuple[Feedback, ...]:
        """Return all feedback on the served answers of a scope, oldest first."""
        of_scope = "SELECT batch FROM batches WHERE kind = 'answer' AND scope = ?"
        return self._feedback(f"batch IN ({of_scope})", (scope,))

    def feedback(self, output: str) -> tuple[Feedback, ...]:
        """Return the feedback history of an output, oldest first."""
        key = self._key(output)
        return self._feedback("batch = ? AND kind = ? AND position = ?", key)

    def settings(self, configuration: str) -> dict[str, Any]:
        """Return settings and files of a configuration by its hash; empty if none was stored."""
        rows = self.select(
            "SELECT settings FROM configurations WHERE configuration = ?", (configuration,)
        )
        return dict(json.loads(rows[0][0])) if rows else {}

    # -- within ----------------------------------------------------------------------------

    def _key(self, output: str, db: Connection | None = None) -> tuple[int, str, int]:
        parts = _OUTPUT_ID.fullmatch(output)
        key = (0, "text", 0)
        if parts is not None:
            key = int(parts[1]), "prompt" if parts[2] else "text", int(parts[3])
        known = "SELECT 1 FROM items WHERE batch = ? AND kind = ? AND position = ?"
        if not (self.select(known, key) if db is None else db.execute(known, key).fetchall()):
            raise self._missing_error(f"no output {output!r}")
        return key

    def _missing_error(self, problem: str) -> StoreError:
        last = self.select("SELECT max(batch) FROM batches")[0][0]
        newest = "none is stored yet" if last is None else f"the newest batch is {last}"
        return StoreError(
            problem,
            where=self.database.where,
            hint=f"{newest}; `ragwright outputs list` shows ids such as 12.3, 12.p1 for a prompt",
        )

    def _hits(self, query: str, values: Sequence[Any]) -> tuple[OutputHit, ...]:
        return tuple(
            OutputHit(*[*row[:5], tuple(json.loads(row[5])), tuple(json.loads(row[6])), row[7]])
            for row in self.select(query, values)
        )

    def _feedback(self, where: str, values: Sequence[Any]) -> tuple[Feedback, ...]:
        """Return the feedback that meets a condition on the table ``feedback``, oldest first."""
        rows = self.select(
            f'SELECT {_ID}, at, "by", verdict, score, note, '  # noqa: S608
            "coalesce(c.text, ''), coalesce(c.passages, '[]') "
            "FROM feedback LEFT JOIN corrections c ON c.number = feedback.number "
            f"WHERE {where} ORDER BY feedback.number",
            values,
        )
        return tuple(Feedback(*[*row[:7], tuple(json.loads(row[7]))]) for row in rows)


_OUTPUT_ID = re.compile(r"(\d{1,18})\.(p?)(\d{1,18})")
_ID = "batch || '.' || CASE kind WHEN 'prompt' THEN 'p' ELSE '' END || position"
"""The id of an output in SQL."""


def _sent_hash(client: str, text: str) -> str:
    """Clients may cut white space around an answer, and write line ends as they like."""
    return value_hash([client, " ".join(text.split())])


def _batch_values(batch: NewBatch, origin: Origin) -> tuple[Any, ...]:
    return (
        batch.kind,
        well_formed(batch.client),
        _readable_json(batch.request),
        request_hash(batch.request),
        origin.snapshot,
        origin.configuration,
        origin.served,
        origin.scope,
        _readable_json(batch.details),
        *_usage_values(batch.usage),
    )


def _item_values(key: tuple[int, str, int], output: Output) -> tuple[Any, ...]:
    return (
        *key,
        output.model,
        well_formed(output.text),
        int(output.prompt.removeprefix("p")) if output.prompt else None,
        _readable_json(output.marks),
        _readable_json(output.details),
        *_usage_values(output.usage),
    )


def _readable_json(value: Any) -> str:
    """Return JSON in the order of its keys, for people who read the table."""
    return well_formed(json.dumps(value, ensure_ascii=False))


def _usage_values(usage: Usage) -> tuple[Any, ...]:
    return (usage.prompt_tokens, usage.completion_tokens, usage.cost, usage.seconds, usage.calls)


def _hit_values(batch: int, hit: Hit) -> tuple[Any, ...]:
    level = hit.rung
    lists = (level.met, level.missed) if level else ((), ())
    facts = (batch, hit.rank, hit.document_id, hit.chunk_id, hit.score, level and level.weight)
    return (
        *facts,
        *(_readable_json([*map(str, filters)]) for filters in lists),
        well_formed(hit.text),
    )


def _output_of_row(row: Sequence[Any]) -> Output:
    stored = dict(zip(_COLUMN_NAMES, row, strict=True))
    usage = Usage(**{name: stored.pop(name) for name in _USAGE})
    marks, details, request = (json.loads(stored.pop(n)) for n in ("marks", "details", "request"))
    return Output(marks=tuple(marks), usage=usage, details=details, request=request, **stored)


def _require_citations(db: Connection, batch: int, output: str, passages: Sequence[int]) -> None:
    if not passages:
        return
    row = db.execute("SELECT details FROM batches WHERE batch = ?", (batch,)).fetchone()
    cited = len(json.loads(row[0]).get("citations", ()))
    wrong = [number for number in passages if not 1 <= number <= cited]
    if wrong:
        raise ConfigError(
            f"{output} has no citation {wrong[0]}",
            hint=f"its citations are numbered 1 to {cited}" if cited else "it cites no passage",
        )


def _where_clause(query: OutputQuery) -> tuple[str, list[Any]]:
    configuration = query.configuration
    is_number = configuration.isdecimal() and len(configuration) < _SHORTEST_HASH
    tests: dict[str, Any] = {
        "batch = ?": query.batch,
        "kind = ?": query.kind,
        "at >= ?": query.since or None,
        "at < ?": query.until or None,
        "lower(client) = lower(?)": query.client or None,
        "model = ?": query.model or None,
        "verdict = ?": query.verdict or None,
        "scope = ?": query.scope,
        "served = ?": int(configuration) if is_number else None,
        "instr(configuration, ?) = 1": None if is_number else configuration or None,
    }
    used = {test: value for test, value in tests.items() if value is not None}
    return " AND ".join(used) or "1 = 1", [*used.values()]


_SHORTEST_HASH = 6
"""Fewest digits of a hash's beginning; a shorter number is a configuration's."""
