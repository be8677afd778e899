"""What changed between the answers of one day and those of an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..core import value_hash

if TYPE_CHECKING:
    from ..drafting import ServedScore

MovedPart: TypeAlias = Literal["corpus", "model", "prompt", "judge", "configuration"]

_SHORT = 8
"""Characters of a hash that are shown."""

_PROMPT_FILES = ("personas/", "prompts/")


@dataclass(frozen=True, slots=True)
class Moved:
    """A part that was different on a day from the day before it with answers.

    Attributes:
        day: The day, ISO 8601.
        part: What changed.
        before: Model, hash of the index, names of sections, …; as it was, and as it is.
        after: See ``before``.
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
) -> tuple[Moved, ...]:
    """Changes between days, oldest first, each once.

    Answers are compared with earlier ones of the same served name and persona, so that two personas
    with models of their own are not mistaken for a change. Within a day the last answer counts.

    Args:
        scores: Of one measure, in the order of their answers.
        settings: The settings and files of a configuration, by its hash.
    """
    known: dict[str, Mapping[str, str]] = {}
    days: dict[tuple[str, str, str], ServedScore] = {}
    judged: dict[str, ServedScore] = {}
    for score in scores:
        days[score.at[:10], score.name, score.persona] = score
        if score.state != "waiting":
            judged[score.at[:10]] = score
    last: dict[tuple[str, str], ServedScore] = {}
    found: list[Moved] = []
    for (day, name, persona), score in sorted(days.items(), key=lambda item: item[0]):
        before = last.get((name, persona))
        last[name, persona] = score
        if before is not None:
            found += _between(before, score, day, known, settings)
    found += _judges(judged)
    order = sorted(found, key=lambda move: (move.day, move.part, move.before, move.after))
    return tuple(dict.fromkeys(order))


def _between(
    before: ServedScore,
    after: ServedScore,
    day: str,
    known: dict[str, Mapping[str, str]],
    settings: Callable[[str], Mapping[str, Any]],
) -> Iterable[Moved]:
    if before.snapshot != after.snapshot:
        yield Moved(day, "corpus", _brief(before.snapshot), _brief(after.snapshot))
    if before.model != after.model:
        yield Moved(day, "model", brief_model(before.model), brief_model(after.model))
    if before.configuration == after.configuration:
        return
    for name in (before.configuration, after.configuration):
        if name not in known:
            known[name] = _parts(settings(name))
    was, now = known[before.configuration], known[after.configuration]
    changed = [key for key in sorted({*was, *now}) if was.get(key) != now.get(key)]
    prompts = [key for key in changed if key == "prompt" or key.startswith(_PROMPT_FILES)]
    others = [key for key in changed if key not in prompts]
    if prompts:
        yield _of_parts(day, "prompt", prompts, was, now)
    if others:
        yield _of_parts(day, "configuration", others, was, now)


def _of_parts(
    day: str,
    part: MovedPart,
    names: Sequence[str],
    was: Mapping[str, str],
    now: Mapping[str, str],
) -> Moved:
    """A change of several sections or files: their names and hashes."""

    def shown(parts: Mapping[str, str]) -> str:
        return ", ".join(f"{name} {_brief(parts.get(name, ''))}" for name in names)

    return Moved(day, part, shown(was), shown(now))


def _judges(judged: Mapping[str, ServedScore]) -> Iterable[Moved]:
    before: ServedScore | None = None
    for day in sorted(judged):
        score = judged[day]
        if before is not None:
            if before.judge != score.judge:
                yield Moved(day, "judge", brief_model(before.judge), brief_model(score.judge))
            elif before.prompts != score.prompts:
                was, now = _brief(before.prompts), _brief(score.prompts)
                yield Moved(day, "judge", f"settings {was}", f"settings {now}")
        before = score


def _parts(body: Mapping[str, Any]) -> dict[str, str]:
    """Section or file -> hash, without the model of answers, which is compared by itself."""
    sections = dict(body.get("settings", {}))
    answer = sections.get("answer")
    if isinstance(answer, dict):
        sections["answer"] = {key: value for key, value in answer.items() if key != "model"}
    found = {name: value_hash(value) for name, value in sections.items() if value}
    return found | dict(body.get("files", {}))


def _brief(name: str) -> str:
    return name[:_SHORT] or "none"


def brief_model(name: str) -> str:
    """The name of a model without the address of its server."""
    return name.rpartition("#")[2].rpartition("/")[2] or "none"
