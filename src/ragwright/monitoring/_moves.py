"""Changes between the answers of one day and those of an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..core import value_hash
from ..drafting import ServedScore

MovedPart: TypeAlias = Literal["corpus", "model", "prompt", "judge", "configuration"]

_SHORT = 8
"""Number of shown characters of a hash."""

_PROMPT_FILES = ("personas/", "prompts/")


@dataclass(frozen=True, slots=True)
class DayShift:
    """A part that was different on a day from the day before it with answers.

    Attributes:
        day: The day, ISO 8601.
        part: The changed part.
        before: Old model, hash of the index, names of sections, ….
        after: The new value.
    """

    day: str
    part: MovedPart
    before: str
    after: str

    def __str__(self) -> str:
        """``model a -> b``."""
        return f"{self.part} {self.before} -> {self.after}"


def moves_of(
    scores: Sequence[ServedScore], settings: Callable[[str], Mapping[str, Any]]
) -> tuple[DayShift, ...]:
    """Return changes between days, oldest first, each once.

    Answers are compared with earlier ones of the same served name and persona, so that two personas
    with their own models are not taken for a change. Within a day the last answer counts.

    Args:
        scores: Scores of one measure, in the order of their answers.
        settings: The settings and files of a configuration, by its hash.
    """
    parts_by_configuration: dict[str, Mapping[str, str]] = {}
    days: dict[tuple[str, str, str], ServedScore] = {}
    judged: dict[str, ServedScore] = {}
    for score in scores:
        days[score.at[:10], score.name, score.persona] = score
        if score.state != "waiting":
            judged[score.at[:10]] = score
    last: dict[tuple[str, str], ServedScore] = {}
    moves: list[DayShift] = []
    for (day, name, persona), score in sorted(days.items(), key=lambda item: item[0]):
        before = last.get((name, persona))
        last[name, persona] = score
        if before is not None:
            moves += _moves_between(before, score, day, parts_by_configuration, settings)
    moves += _judge_moves(judged)
    order = sorted(moves, key=lambda move: (move.day, move.part, move.before, move.after))
    return tuple(dict.fromkeys(order))


def _moves_between(
    before: ServedScore,
    after: ServedScore,
    day: str,
    parts_by_configuration: dict[str, Mapping[str, str]],
    settings: Callable[[str], Mapping[str, Any]],
) -> Iterable[DayShift]:
    if before.snapshot != after.snapshot:
        yield DayShift(day, "corpus", _short_hash(before.snapshot), _short_hash(after.snapshot))
    if before.model != after.model:
        yield DayShift(day, "model", brief_model(before.model), brief_model(after.model))
    if before.configuration == after.configuration:
        return
    for name in (before.configuration, after.configuration):
        if name not in parts_by_configuration:
            parts_by_configuration[name] = _configuration_parts(settings(name))
    old, new = (
        parts_by_configuration[before.configuration],
        parts_by_configuration[after.configuration],
    )
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    prompts = [key for key in changed if key == "prompt" or key.startswith(_PROMPT_FILES)]
    others = [key for key in changed if key not in prompts]
    if prompts:
        yield _move_of_parts(day, "prompt", prompts, old, new)
    if others:
        yield _move_of_parts(day, "configuration", others, old, new)


def _move_of_parts(
    day: str,
    part: MovedPart,
    names: Sequence[str],
    old: Mapping[str, str],
    new: Mapping[str, str],
) -> DayShift:
    """Return a change of several sections or files: their names and hashes."""

    def hashes(parts: Mapping[str, str]) -> str:
        return ", ".join(f"{name} {_short_hash(parts.get(name, ''))}" for name in names)

    return DayShift(day, part, hashes(old), hashes(new))


def _judge_moves(judged: Mapping[str, ServedScore]) -> Iterable[DayShift]:
    before: ServedScore | None = None
    for day in sorted(judged):
        score = judged[day]
        if before is not None:
            if before.judge != score.judge:
                yield DayShift(day, "judge", brief_model(before.judge), brief_model(score.judge))
            elif before.prompts != score.prompts:
                old, new = _short_hash(before.prompts), _short_hash(score.prompts)
                yield DayShift(day, "judge", f"settings {old}", f"settings {new}")
        before = score


def _configuration_parts(body: Mapping[str, Any]) -> dict[str, str]:
    """Hash each section or file, without the model of answers, which is compared separately."""
    sections = dict(body.get("settings", {}))
    answer = sections.get("answer")
    if isinstance(answer, dict):
        sections["answer"] = {key: value for key, value in answer.items() if key != "model"}
    hashes = {name: value_hash(value) for name, value in sections.items() if value}
    return hashes | dict(body.get("files", {}))


def _short_hash(name: str) -> str:
    return name[:_SHORT] or "none"


def brief_model(name: str) -> str:
    """The name of a model without the address of its server."""
    return name.rpartition("#")[2].rpartition("/")[2] or "none"
