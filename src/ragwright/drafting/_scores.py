"""The database of outputs, and the scores of served answers in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Literal, TypeAlias

from ..core import ConfigError, Score, ScoreState, text_hash
from ..ledger import Connection, Ledger, Place

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def now_utc() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """Format a time for the table: ISO 8601, UTC, milliseconds; sorts as text."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + (
        f"{moment.microsecond // 1000:03d}Z"
    )


def moment(text: str) -> str:
    """Convert a typed time to the table's format.

    Forms are ``2026-11-01`` (local midnight), an ISO 8601 date and time, or a duration before now:
    ``90m``, ``24h``, ``7d``, ``2w``.

    Raises:
        ConfigError: It has another form.
    """
    unit, number = text[-1:], text[:-1]
    try:
        if unit in _UNITS and number.isdecimal():
            return timestamp(now_utc() - timedelta(**{_UNITS[unit]: int(number)}))
        return timestamp(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{text!r} is not a time",
            where="--since",
            hint="write 2026-11-01, 2026-11-01T08:30, or how long ago: 24h, 7d",
        ) from error


class OutputTable:
    """The outputs, opened; several processes may write them.

    Args:
        place: File to use, made with mode 0600; or a shared database.
        clock: Returns the time.
    """

    def __init__(self, place: Place, *, clock: Callable[[], datetime] = now_utc) -> None:
        self._ledger = Ledger(place)
        self.database, self.select = self._ledger.database, self._ledger.select
        self._clock = clock

    def close(self) -> None:
        """Close it; safe to call twice."""
        self._ledger.close()

    def now(self, after: float = 0.0) -> str:
        """Return the time, some seconds from now, as it is stored: ISO 8601, UTC."""
        return timestamp(self._clock() + timedelta(seconds=after))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Open a connection on one state of the file: a half-read cursor blocks no others."""
        with closing(self.database.connect()) as db, self.database.explained():
            self.database.begin_reading(db)
            yield db


ServedState: TypeAlias = ScoreState | Literal["waiting"]

_DIGITS = 13
"""Hexadecimal digits of the hash that decides on drawing an answer."""
_HASHES = float(16**_DIGITS)
_DAY = 86_400.0

MOST_ATTEMPTS = 10
_FIRST_WAIT, _LONGEST_WAIT = 60.0, _DAY
"""Seconds before the next attempt; each wait is four times the one before."""


@dataclass(frozen=True, slots=True)
class WaitingAnswer:
    """A drawn answer, its scope, and the measures that it waits for."""

    output: str
    scope: str
    measures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """The models of a measure, and a hash of prompts and settings."""

    judge: str = ""
    prompts: str = ""


@dataclass(frozen=True, slots=True)
class ServedScore:
    """A score of a served answer, with the origin of the answer.

    Attributes:
        output: Id of the answer.
        at: Time of serving; ISO 8601, UTC.
        measure: The measure.
        state: ``waiting``, or the state of the score.
        value: The value, or None; see ``reason``.
        judge: Models of the measure; ``prompts`` is the hash of its prompts and settings.
        model: Model of the answer.
        snapshot: State of the index that was searched.
        configuration: Hash of the settings it was served under.
        scope: Visibility.
        persona: Persona of the answer.
        name: Name of the served configuration.
        reason: Reason of a missing value.
        prompts: See ``judge``.
    """

    output: str
    at: str
    measure: str
    state: ServedState
    value: float | None
    judge: str
    model: str
    snapshot: str
    configuration: str
    scope: str
    persona: str
    name: str
    reason: str = ""
    prompts: str = ""


@dataclass(frozen=True, slots=True)
class MeasuringDay:
    """The measurements of a day (UTC).

    ``failed`` counts attempts that ended in an error, ``reason`` is that of the last one.
    ``reached`` is the daily budget that was used up, None if none was.
    """

    day: str
    cost: float = 0.0
    scored: int = 0
    failed: int = 0
    reason: str = ""
    reached: float | None = None


@dataclass(frozen=True, slots=True)
class ServedCounts:
    """Served answers of a period, and the numbers that people accepted or rejected."""

    answers: int
    accepted: int
    rejected: int


class ServedScores:
    """Scores of served answers, in the file of outputs; several processes may use it.

    Args:
        table: The file.
    """

    def __init__(self, table: OutputTable) -> None:
        self._table = table

    # -- drawing ---------------------------------------------------------------------------

    def draw(self, share: float, measures: Sequence[str], days: float) -> int:
        """Draw a share of the answers served since the last draw; return the number drawn.

        The hash of an answer's id decides, so that every process draws the same answers, also
        after restarts. Answers older than ``days`` are not drawn.
        """
        with self._table.database.transaction() as db:
            first = db.execute(
                "SELECT min(batch) FROM batches WHERE at >= ?", (self._table.now(-days * _DAY),)
            ).fetchone()[0]
            drawn = db.execute("SELECT coalesce(max(batch), 0) FROM drawn").fetchone()[0]
            after = max(drawn, (first or 1) - 1)
            rows = db.execute(
                "SELECT b.batch, i.position, json_extract(b.details, '$.id') FROM batches b "
                "JOIN items i ON i.batch = b.batch AND i.kind = 'text' "
                "WHERE b.kind = 'answer' AND b.batch > ?",
                (after,),
            ).fetchall()
            # a larger share includes every answer of a smaller one
            chosen = [
                (batch, position)
                for batch, position, name in rows
                if int(text_hash(name or f"{batch}.{position}")[:_DIGITS], 16) < share * _HASHES
            ]
            db.executemany(
                "INSERT INTO scores VALUES (?, 'text', ?, ?, 'waiting', NULL, '', '', "
                "'', '', 0, ?) ON CONFLICT DO NOTHING",
                [(*row, measure, self._table.now()) for row in chosen for measure in measures],
            )
            last = db.execute("SELECT coalesce(max(batch), 0) FROM batches").fetchone()[0]
            db.execute(
                "INSERT INTO drawn VALUES (1, ?) "
                "ON CONFLICT (one) DO UPDATE SET batch = excluded.batch",
                (max(last, after),),
            )
        return len(chosen)

    def has_work(self, daily_budget: float | None) -> bool:
        """True if something can be drawn or scored now."""
        if self._table.select(
            "SELECT 1 FROM batches WHERE kind = 'answer' "
            "AND batch > coalesce((SELECT max(batch) FROM drawn), 0) LIMIT 1"
        ):
            return True
        due = self._table.select(
            "SELECT 1 FROM scores WHERE state = 'waiting' AND due <= ? LIMIT 1",
            (self._table.now(),),
        )
        return bool(due) and self.today().reached not in {daily_budget} - {None}

    # -- scoring ---------------------------------------------------------------------------

    def waiting(self, limit: int) -> list[WaitingAnswer]:
        """Return the answers that are due, the oldest first."""
        now = self._table.now()
        rows = self._table.select(
            "SELECT s.batch || '.' || s.position, b.scope, s.measure "
            "FROM scores s JOIN batches b USING (batch) JOIN (SELECT DISTINCT batch, position "
            "FROM scores WHERE state = 'waiting' AND due <= ? ORDER BY batch, position "
            "LIMIT ?) AS oldest ON oldest.batch = s.batch AND oldest.position = s.position "
            "WHERE s.state = 'waiting' AND s.due <= ? ORDER BY s.batch, s.position, s.measure",
            (now, limit, now),
        )
        return [
            WaitingAnswer(output, scope, tuple(measure for _, _, measure in rows_of_answer))
            for (output, scope), rows_of_answer in groupby(rows, key=lambda row: (row[0], row[1]))
        ]

    def store(
        self, scores: Mapping[str, Iterable[Score]], used: Mapping[str, JudgedBy], cost: float
    ) -> None:
        """Store the scores of answers by their ids, and their cost, in one transaction.

        A score in the state ``errored`` waits for another attempt, at most
        :data:`MOST_ATTEMPTS` times. Scores of answers that were forgotten meanwhile are dropped.
        """
        pairs = [
            (output, score)
            for output, scores_of_answer in scores.items()
            for score in scores_of_answer
        ]
        failed = [score for _, score in pairs if score.state == "errored"]
        with self._table.database.transaction() as db:
            for output, score in pairs:
                self._store_score(db, output, score, used.get(score.measure, JudgedBy()))
            db.execute(
                "INSERT INTO measuring_days AS d VALUES (?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (day) DO UPDATE SET cost = d.cost + excluded.cost, "
                "scored = d.scored + excluded.scored, failed = d.failed + excluded.failed, "
                "reason = CASE excluded.reason WHEN '' THEN d.reason ELSE excluded.reason END",
                (
                    self._table.now()[:10],
                    cost,
                    sum(score.state == "scored" for _, score in pairs),
                    len(failed),
                    failed[-1].reason if failed else "",
                ),
            )

    def _store_score(self, db: Connection, output: str, score: Score, used: JudgedBy) -> None:
        key = (*map(int, output.split(".")), score.measure)
        where = "WHERE batch = ? AND kind = 'text' AND position = ? AND measure = ?"
        attempts = db.execute(f"SELECT attempts FROM scores {where}", key).fetchone()  # noqa: S608
        if attempts is None:
            return
        count = attempts[0] + 1
        is_retried = score.state == "errored" and count < MOST_ATTEMPTS
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 4 ** (count - 1))
        db.execute(
            "UPDATE scores SET state = ?, value = ?, reason = ?, judge = ?, prompts = ?, "  # noqa: S608
            f"scored_at = ?, attempts = ?, due = ? {where}",
            (
                "waiting" if is_retried else score.state,
                score.value,
                score.reason,
                used.judge,
                used.prompts,
                "" if is_retried else self._table.now(),
                count,
                self._table.now(wait if is_retried else 0.0),
                *key,
            ),
        )

    def reached(self, daily_budget: float) -> None:
        """Note that the budget of today is used up."""
        with self._table.database.transaction() as db:
            db.execute(
                "INSERT INTO measuring_days VALUES (?, 0, 0, 0, '', ?) "
                "ON CONFLICT (day) DO UPDATE SET reached = excluded.reached",
                (self._table.now()[:10], daily_budget),
            )

    def retry_errors(self) -> int:
        """Let every score with an error wait again, now; return their number."""
        with self._table.database.transaction() as db:
            again = db.execute(
                "UPDATE scores SET state = 'waiting', attempts = 0, due = ? "
                "WHERE state = 'errored' OR (state = 'waiting' AND attempts > 0)",
                (self._table.now(),),
            )
            return int(again.rowcount)

    # -- reading ---------------------------------------------------------------------------

    def today(self) -> MeasuringDay:
        """Return the measurements of today (UTC)."""
        day = self._table.now()[:10]
        rows = self._table.select(
            "SELECT day, cost, scored, failed, reason, reached FROM measuring_days WHERE day = ?",
            (day,),
        )
        return MeasuringDay(*rows[0]) if rows else MeasuringDay(day)

    def count_waiting(self) -> int:
        """Count the answers that wait for a score."""
        ((count,),) = self._table.select(
            "SELECT count(*) FROM (SELECT DISTINCT batch, position FROM scores "
            "WHERE state = 'waiting') AS answers"
        )
        return int(count)

    def served(self, days: float) -> ServedCounts:
        """Count the answers served within the last days, of every scope, and their feedback."""
        (counts,) = self._table.select(
            "SELECT count(*), "
            "coalesce(sum(CASE f.verdict WHEN 'accepted' THEN 1 ELSE 0 END), 0), "
            "coalesce(sum(CASE f.verdict WHEN 'rejected' THEN 1 ELSE 0 END), 0) FROM batches b "
            "LEFT JOIN latest_feedback f ON f.batch = b.batch AND f.kind = 'text' "
            "WHERE b.kind = 'answer' AND b.at >= ?",
            (self._table.now(-days * _DAY),),
        )
        return ServedCounts(*map(int, counts))

    def all(self, scope: str | None = "") -> list[ServedScore]:
        """Return every score of a scope (None: of all), in the order of serving."""
        condition, values = ("1 = 1", []) if scope is None else ("scope = ?", [scope])
        return self._find(f"{condition} ORDER BY batch, id, measure", values)

    def of(self, *outputs: str) -> list[ServedScore]:
        """Return the scores of answers, by measure."""
        marks = ", ".join("?" for _ in outputs)
        return self._find(f"id IN ({marks}) ORDER BY measure", outputs)

    def _find(self, condition: str, values: Sequence[str]) -> list[ServedScore]:
        rows = self._table.select(
            "SELECT id, at, measure, state, value, judge, model, snapshot, configuration, "  # noqa: S608
            f"scope, persona, name, reason, prompts FROM scored WHERE {condition}",
            values,
        )
        return [ServedScore(*row) for row in rows]
