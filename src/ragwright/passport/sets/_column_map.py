"""What the columns of a file mean: the texts of ``--map COLUMN=ROLE``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...core import ConfigError, TestsetError, suggest_name

FIELDS = ("user_input", "response", "reference", "retrieved_contexts")
"""Fields of a row that a column may be mapped to."""

_SINGLE = ("id", "task", "system", "rater", "second", "ignore", *FIELDS)
_ROLE = re.compile(r"(?P<role>[a-z_]+)(?:\.(?P<name>[^()]+))?(?:\((?P<scale>.+)\))?")
_RANGE = re.compile(r"\s*(?P<worst>-?\d*\.?\d+)\s*\.\.\s*(?P<best>-?\d*\.?\d+)\s*")
_WORDS = {
    **dict.fromkeys(("yes", "true", "pass", "passed", "correct", "good"), 1.0),
    **dict.fromkeys(("no", "false", "fail", "failed", "incorrect", "bad"), 0.0),
}
_MISSING = ("", "nan", "none", "null", "n/a", "na")
_HINT = (
    "write COLUMN=ROLE with the role label.NAME, verdict.NAME, rater, task, system, id, second, "
    f"ignore, {', '.join(FIELDS)}; for example --map 'human=label.faithfulness(1..5)'"
)


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """The meaning of one column.

    Attributes:
        column: Its name; dots lead into objects, ``annotations.faithfulness``.
        role: ``label``, ``verdict``, ``rater``, ``task``, …
        name: Dimension of a label, name of a verdict; empty for other roles.
        worst: Worst value, None if unknown; ``best`` the best one. Values are turned if it is
            smaller.
        best: See ``worst``.
        words: Labels in words, lower case, from the worst to the best.
    """

    column: str
    role: str
    name: str = ""
    worst: float | None = None
    best: float | None = None
    words: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[float, float] | None:
        """Smallest and largest value; None if they are not given."""
        if self.words:
            return 0.0, float(len(self.words) - 1)
        if self.worst is None or self.best is None:
            return None
        return min(self.worst, self.best), max(self.worst, self.best)

    @property
    def mapping(self) -> str:
        """How its values became numbers; empty if they are unchanged."""
        if self.words:
            return ", ".join(f"{number} {word}" for number, word in enumerate(self.words))
        if self.worst is not None and self.best is not None and self.best < self.worst:
            return f"turned: {self.worst:g} in the file is the worst, {self.best:g} the best"
        return ""

    def number(self, value: Any, where: str) -> float | None:
        """A label or verdict as a number; None if it is missing.

        Raises:
            TestsetError: It is not a number and no known word.
        """
        if value is None or (isinstance(value, str) and value.strip().casefold() in _MISSING):
            return None
        text = str(value).strip().casefold()
        if self.words:
            if text in self.words:
                return float(self.words.index(text))
            raise TestsetError(
                f"{self.column} is {str(value)[:40]!r}, none of {', '.join(self.words)}",
                where=where,
                hint="list every label of the column, from the worst to the best",
            )
        if text in _WORDS:
            return _WORDS[text]
        try:
            number = float(text)
        except ValueError as error:
            raise TestsetError(
                f"{self.column} is {str(value)[:40]!r}, not a number",
                where=where,
                hint=f"list the labels from the worst to the best: "
                f"--map '{self.column}={self.role}.{self.name or 'NAME'}(bad,fair,good)'",
            ) from error
        if self.worst is not None and self.best is not None and self.best < self.worst:
            return self.worst + self.best - number
        return number


def read_column_map(texts: Iterable[str]) -> tuple[MappedColumn, ...]:
    """Read the texts of ``--map``.

    Raises:
        ConfigError: A text has another form, a role is unknown, or two columns have one role.
    """
    columns = tuple(_mapped_column(text) for text in texts)
    for role in _SINGLE:
        several = [column.column for column in columns if column.role == role]
        if len(several) > 1 and role != "ignore":
            raise ConfigError(
                f"{' and '.join(several)} are both mapped to {role}",
                where="--map",
                hint="map one column to it",
            )
    return columns


def _mapped_column(text: str) -> MappedColumn:
    column, sign, role_text = text.rpartition("=")
    match = _ROLE.fullmatch(role_text.strip())
    if not sign or not column.strip() or match is None:
        raise ConfigError(f"cannot read {text!r} as a column map", where="--map", hint=_HINT)
    role, name = match["role"], (match["name"] or "").strip()
    if role not in (*_SINGLE, "label", "verdict"):
        raise ConfigError(
            f"unknown role {role!r} in {text!r}",
            where="--map",
            hint=f"{suggest_name(role, (*_SINGLE, 'label', 'verdict'))} {_HINT}",
        )
    if role in _SINGLE and (name or match["scale"]):
        raise ConfigError(f"{role} takes no name and no scale", where="--map", hint=_HINT)
    name = name or (column.strip() if role in ("label", "verdict") else "")
    scale = match["scale"]
    if scale is None:
        return MappedColumn(column.strip(), role, name)
    ends = _RANGE.fullmatch(scale)
    if ends is not None:
        worst, best = float(ends["worst"]), float(ends["best"])
        if worst == best:
            raise ConfigError(f"both ends of {text!r} are equal", where="--map", hint=_HINT)
        return MappedColumn(column.strip(), role, name, worst, best)
    words = tuple(word.strip().casefold() for word in scale.split(","))
    if len(set(words)) < 2 or not all(words):
        raise ConfigError(
            f"cannot read the scale of {text!r}",
            where="--map",
            hint="write the worst and the best, (1..5), or all labels in that order: (bad,good)",
        )
    return MappedColumn(column.strip(), role, name, words=words)


def value_at(record: Mapping[str, Any], column: str) -> Any:
    """The value of a column; dots lead into objects. None if there is none."""
    if column in record:
        return record[column]
    value: Any = record
    for part in column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value
