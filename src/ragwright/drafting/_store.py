"""The table of outputs: every text and prompt, in one SQLite file for other programs too.

Append-only, except for forgetting. A batch is one transaction: complete or absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from ..core import ConfigError, StoreError, Usage, canonical_json, value_hash, well_formed
from ..ledger import EARLIER, Connection
from ._records import (
    DraftBatch,
    Feedback,
    FeedbackVerdict,
    NewBatch,
    NewOutput,
    Origin,
    Output,
    OutputBatch,
    OutputHit,
    OutputKind,
    OutputQuery,
    ScoreOrder,
    conditions,
    draft_outputs,
    request_hash,
)
from ._scores import OutputTable, ServedScores, timestamp

SCORES = (-1.0, 100.0)
"""Least and highest score of feedback: the scales of measures, and percent."""

_OF_A_BATCH = (
    "feedback", "output_names", "scores", "uses", "hits", "items", "answer_texts", "batches",
)  # fmt: skip
"""Tables with the rows of a batch, in the order in which they can be deleted."""

_COLUMNS = (
    "id, batch, at, kind, source, model, text, prompt, marks, calls, prompt_tokens, "
    "completion_tokens, cost, seconds, details, client, request, configuration, served, scope, "
    "verdict, score, note"
)


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
        before = (timestamp(self._clock() - timedelta(days=days)),)
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
        at = self.now()
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
                (
                    at,
                    batch.kind,
                    well_formed(batch.client),
                    _readable_json(batch.request),
                    request_hash(batch.request),
                    batch_origin.snapshot,
                    batch_origin.configuration,
                    batch_origin.served,
                    batch_origin.scope,
                    _readable_json(batch.details),
                    *_usage_values(batch.usage),
                ),
            )
            number = int(cursor.fetchone()[0])
            positions = {"text": 0, "prompt": 0}
            for output in batch.outputs:
                positions[output.kind] += 1
                _insert_output(db, (number, output.kind, positions[output.kind]), output, documents)
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
                (name, *self._output_key(output, db), by),
            )

    def named(self, name: str) -> tuple[str, str] | None:
        """Return the id of the output with a name, and its requester; None if there is none."""
        with self.reading() as db:
            row = db.execute(
                'SELECT batch, kind, position, "by" FROM output_names WHERE name = ?', (name,)
            ).fetchone()
        if row is None:
            return None
        batch, kind, position, by = row
        return f"{batch}.{'p' if kind == 'prompt' else ''}{position}", by

    def of_person(self, person: str) -> list[tuple[str, str]]:
        """Return what a person asked for or rated: id of the text and question.

        The question is empty for a draft, and for an answer that another person asked for.
        """
        own = 'EXISTS (SELECT 1 FROM output_names n WHERE n.batch = b.batch AND n."by" = ?)'
        rated = (
            "EXISTS (SELECT 1 FROM feedback f WHERE f.batch = i.batch AND f.kind = i.kind "
            'AND f.position = i.position AND f."by" = ?)'
        )
        with self.reading() as db:
            rows = db.execute(
                f"SELECT i.batch, i.position, b.request, {own} FROM items i "  # noqa: S608
                f"JOIN batches b ON b.batch = i.batch WHERE i.kind = 'text' AND ({own} OR {rated})",
                (person,) * 3,
            ).fetchall()
        asked = []
        for batch, position, request, mine in rows:
            question = json.loads(request).get("question") if mine else ""
            asked.append((f"{batch}.{position}", str(question or "")))
        return asked

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
            key = self._output_key(output, db)
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
        self, query: OutputQuery | None = None, *, limit: int | None = None, newest: bool = False
    ) -> Iterator[Output]:
        """Yield the outputs of a query, oldest first, as they were when reading began.

        Without a query or scope, these are the outputs without a tenant.
        """
        where, values = _where_clause(query or OutputQuery())
        order = "batch DESC, kind DESC, position" if newest else "batch, kind, position"
        text = f"SELECT {_COLUMNS} FROM outputs WHERE {where} ORDER BY {order}"  # noqa: S608
        if limit is not None:
            text, values = f"{text} LIMIT ?", [*values, limit]
        with self.reading() as db:
            for row in self.database.stream(db, text, values):
                yield _output_of_row(row)

    def page(
        self, query: OutputQuery, *, limit: int, offset: int = 0, order: ScoreOrder | None = None
    ) -> list[Output]:
        """Return a page of the outputs of a query: newest first, or by the scores of a measure.

        By scores, the worst are first; outputs without a score are last.
        """
        where, values = _where_clause(query)
        text, by = f"SELECT {_COLUMNS} FROM outputs", "batch DESC, kind DESC, position"  # noqa: S608
        if order is not None:
            text += (
                " LEFT JOIN (SELECT id AS scored_id, value AS scored_value FROM scored"
                " WHERE measure = ?) AS of_measure ON scored_id = id"
            )
            direction = "ASC" if order.higher_is_better else "DESC"
            by = f"scored_value IS NULL, scored_value {direction}, {by}"
            values = [order.measure, *values]
        text += f" WHERE {where} ORDER BY {by} LIMIT ? OFFSET ?"
        with self.reading() as db:
            return [
                _output_of_row(row) for row in db.execute(text, [*values, limit, offset]).fetchall()
            ]

    def count(self, query: OutputQuery | None = None) -> int:
        """Count the outputs of a query; without one as :meth:`find`."""
        where, values = _where_clause(query or OutputQuery())
        with self.reading() as db:
            cursor = db.execute(f"SELECT count(*) FROM outputs WHERE {where}", values)  # noqa: S608
            return int(cursor.fetchone()[0])

    def keys(self, query: OutputQuery) -> list[tuple[str, str]]:
        """Return (id, hash of the request) of the outputs of a query, oldest first."""
        where, values = _where_clause(query)
        text = f"SELECT id, asked FROM outputs WHERE {where} ORDER BY batch, kind, position"  # noqa: S608
        with self.reading() as db:
            return [(row[0], row[1]) for row in db.execute(text, values)]

    def get(self, output: str) -> Output:
        """Return an output by its id.

        Raises:
            StoreError: There is none.
        """
        with self.reading() as db:
            row = db.execute(
                f"SELECT {_COLUMNS} FROM outputs WHERE batch = ? AND kind = ? AND position = ?",  # noqa: S608
                self._output_key(output, db),
            )
            return _output_of_row(row.fetchone())

    def used(self, output: str) -> tuple[OutputHit, ...]:
        """Return the hits used for an output, in the order of its prompt."""
        with self.reading() as db:
            key = self._output_key(output, db)
            rows = db.execute(
                "SELECT coalesce(h.rank, 0), u.document_id, u.chunk_id, coalesce(h.score, 0), "
                "h.weight, coalesce(h.met, '[]'), coalesce(h.missed, '[]'), coalesce(h.text, '') "
                "FROM uses u LEFT JOIN hits h ON h.batch = u.batch AND h.chunk_id = u.chunk_id "
                "WHERE u.batch = ? AND u.kind = ? AND u.position = ? ORDER BY u.ordinal",
                key,
            )
            return tuple(map(_hit_of_row, rows.fetchall()))

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
        with self.reading() as db:
            for text in dict.fromkeys(texts):
                batches = db.execute(
                    "SELECT b.batch, b.request FROM answer_texts t JOIN batches b "
                    "ON b.batch = t.batch WHERE t.text = ?",
                    (_sent_hash(client, text),),
                ).fetchall()
                if not batches:
                    return None
                for batch, request in batches:
                    of_batch, complete = _passages_of_batch(db, batch, request)
                    if not complete:
                        return None
                    passages |= of_batch
        return tuple(sorted(passages))

    def batch(self, number: int) -> OutputBatch:
        """Return a complete batch.

        Raises:
            StoreError: There is no batch with that number.
        """
        with self.reading() as db:
            row = db.execute(
                "SELECT at, kind, client, request, snapshot, configuration, served, scope, calls, "
                "prompt_tokens, completion_tokens, cost, seconds, details FROM batches "
                "WHERE batch = ?",
                (number,),
            ).fetchone()
            if row is None:
                raise self._missing_error(f"no batch {number}", db)
            hits = db.execute(
                "SELECT rank, document_id, chunk_id, score, weight, met, missed, text FROM hits "
                "WHERE batch = ? ORDER BY rank",
                (number,),
            )
            stored_hits = tuple(map(_hit_of_row, hits.fetchall()))
            feedback = feedback_rows(db, "batch = ?", (number,))
        outputs = tuple(self.find(OutputQuery(batch=number, scope=None)))
        facts = [number, *row[:3], json.loads(row[3]), *row[4:8]]
        facts += [Usage(*row[8:13]), json.loads(row[13]), outputs, stored_hits, feedback]
        return OutputBatch(*facts)

    def feedback_on_answers(self, scope: str) -> tuple[Feedback, ...]:
        """Return all feedback on the served answers of a scope, oldest first."""
        with self.reading() as db:
            return feedback_rows(
                db,
                "batch IN (SELECT batch FROM batches WHERE kind = 'answer' AND scope = ?)",
                (scope,),
            )

    def feedback(self, output: str) -> tuple[Feedback, ...]:
        """Return the feedback history of an output, oldest first."""
        with self.reading() as db:
            return feedback_rows(
                db, "batch = ? AND kind = ? AND position = ?", self._output_key(output, db)
            )

    def settings(self, configuration: str) -> dict[str, Any]:
        """Return settings and files of a configuration by its hash; empty if none was stored."""
        with self.reading() as db:
            row = db.execute(
                "SELECT settings FROM configurations WHERE configuration = ?", (configuration,)
            ).fetchone()
        return {} if row is None else dict(json.loads(row[0]))

    # -- within ----------------------------------------------------------------------------

    def _output_key(self, output: str, db: Connection) -> tuple[int, str, int]:
        """Return batch, kind and position of an existing output."""
        batch, _, place = output.partition(".")
        kind: OutputKind = "prompt" if place.startswith("p") else "text"
        number = place.removeprefix("p")
        if batch.isdecimal() and number.isdecimal():
            key = (int(batch), kind, int(number))
            known = db.execute(
                "SELECT 1 FROM items WHERE batch = ? AND kind = ? AND position = ?", key
            )
            if known.fetchone() is not None:
                return key
        raise self._missing_error(f"no output {output!r}", db)

    def _missing_error(self, problem: str, db: Connection) -> StoreError:
        last = db.execute("SELECT max(batch) FROM batches").fetchone()[0]
        newest = "none is stored yet" if last is None else f"the newest batch is {last}"
        return StoreError(
            problem,
            where=self.database.where,
            hint=f"{newest}; `ragwright outputs list` shows ids such as 12.3, 12.p1 for a prompt",
        )


def _sent_hash(client: str, text: str) -> str:
    """Clients may cut white space around an answer, and write line ends as they like."""
    return value_hash([client, " ".join(text.split())])


def _passages_of_batch(
    db: Connection, batch: int, request: str
) -> tuple[set[tuple[str, str]], bool]:
    """Document and chunk of what a batch was made from, and whether nothing of it is unknown."""
    rows = db.execute(
        "SELECT kind, document_id, chunk_id FROM uses WHERE batch = ?", (batch,)
    ).fetchall()
    complete = "asked_before" not in json.loads(request) or any(row[0] == EARLIER for row in rows)
    return {(document, chunk) for _, document, chunk in rows if document}, complete


def _insert_output(
    db: Connection,
    key: tuple[int, str, int],
    output: NewOutput,
    documents: dict[str, str],
) -> None:
    share = {} if output.share is None else {_SHARE: asdict(output.share)}
    db.execute(
        "INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *key,
            output.model,
            well_formed(output.text),
            None if output.prompt is None else output.prompt + 1,
            _readable_json(output.marks),
            _readable_json({**output.details, **share}),
            *_usage_values(output.usage),
        ),
    )
    # The id of a chunk begins with that of its document.
    db.executemany(
        "INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)",
        [
            (documents.get(chunk) or chunk.rpartition(":")[0] or chunk, *key, ordinal, chunk)
            for ordinal, chunk in enumerate(output.uses)
        ],
    )


_SHARE = "share"


def _readable_json(value: Any) -> str:
    """Return JSON in the order of its keys, for people who read the table."""
    return well_formed(json.dumps(value, ensure_ascii=False))


def _usage_values(usage: Usage) -> tuple[Any, ...]:
    return (
        usage.prompt_tokens,
        usage.completion_tokens,
        usage.cost,
        usage.seconds,
        usage.calls,
    )


def _hit_values(batch: int, hit: Any) -> tuple[Any, ...]:
    rung = hit.rung
    met, missed = (conditions(rung.met), conditions(rung.missed)) if rung else ([], [])
    facts = (batch, hit.rank, hit.document_id, hit.chunk_id, hit.score)
    weight = rung.weight if rung else None
    return (*facts, weight, _readable_json(met), _readable_json(missed), well_formed(hit.text))


def _hit_of_row(row: Sequence[Any]) -> OutputHit:
    values = [*row[:5], tuple(json.loads(row[5])), tuple(json.loads(row[6])), row[7]]
    return OutputHit(*values)


def _output_of_row(row: Sequence[Any]) -> Output:
    details = json.loads(row[14])
    share = details.pop(_SHARE, None)
    values = [*row[:8], tuple(json.loads(row[8])), Usage(*row[9:14]), details]
    values += [row[15], json.loads(row[16]), *row[17:], share and Usage(**share)]
    return Output(*values)


def _require_citations(db: Connection, batch: int, output: str, passages: Sequence[int]) -> None:
    """Refuse numbers of citations that an answer does not have."""
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


def feedback_rows(db: Connection, where: str, values: Sequence[Any]) -> tuple[Feedback, ...]:
    """Return the feedback that meets a condition on the table ``feedback``, oldest first."""
    rows = db.execute(
        "SELECT batch || '.' || CASE kind WHEN 'prompt' THEN 'p' ELSE '' END || position, at, "  # noqa: S608
        "\"by\", verdict, score, note, coalesce(c.text, ''), coalesce(c.passages, '[]') "
        "FROM feedback LEFT JOIN corrections c ON c.number = feedback.number "
        f"WHERE {where} ORDER BY feedback.number",
        values,
    )
    return tuple(
        replace(Feedback(*row[:7]), passages=tuple(json.loads(row[7]))) for row in rows.fetchall()
    )


def _where_clause(query: OutputQuery) -> tuple[str, list[Any]]:
    """Return a WHERE clause and its values."""
    parts: list[tuple[str, Any]] = [("batch = ?", query.batch), ("kind = ?", query.kind)]
    parts += [("at >= ?", query.since or None), ("at < ?", query.until or None)]
    parts += [
        ("lower(client) = lower(?)", query.client or None),
        ("model = ?", query.model or None),
    ]
    parts += [("verdict = ?", query.verdict or None), ("scope = ?", query.scope)]
    configuration = query.configuration
    if configuration.isdecimal() and len(configuration) < _SHORTEST_HASH:
        parts.append(("served = ?", int(configuration)))
    elif configuration:
        parts.append(("instr(configuration, ?) = 1", configuration))
    used = [(text, value) for text, value in parts if value is not None]
    return " AND ".join(text for text, _ in used) or "1 = 1", [value for _, value in used]


_SHORTEST_HASH = 6
"""Fewest digits of a hash's beginning; a shorter number is a configuration's."""
