"""Rubrics: the instructions of a judge, as files that users can edit."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from ..core import (
    ConfigError,
    MeasureError,
    Placed,
    build_options,
    canonical_json,
    parse_yaml,
    read_yaml,
    suggest_name,
    text_hash,
)

OverPassages: TypeAlias = Literal["", "mean", "best"]

FIELDS = ("user_input", "response", "reference", "retrieved_contexts", "reference_contexts")
"""Fields of a row that a rubric may use."""

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SEVERAL = frozenset({"retrieved_contexts", "reference_contexts"})
_FOLDER = "rubrics"


@dataclass(frozen=True, slots=True)
class RubricExample:
    """A worked example: texts as in a row, the reasoning, and the score."""

    reasoning: str
    score: int
    user_input: str = ""
    response: str = ""
    reference: str = ""
    retrieved_contexts: tuple[str, ...] = ()
    reference_contexts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rubric:
    """A rubric: what to judge, on which scale, and how; the fields are the keys of its file.

    Attributes:
        name: Name, equal to that of its file.
        summary: One sentence for the reader of a report.
        scale: Lowest and highest score, whole numbers from 0 on.
        needs: Fields of a row that the judge sees, in this order.
        task: Instructions for the judge.
        levels: Every score of the scale -> its meaning, one line each.
        high_example: A worked example with a high score, ``low_example`` with a low one.
        higher_is_better: Direction.
        over_passages: How scores of passages are combined that are judged one by one because
            together they do not fit the judge's window: ``mean``, ``best``, or empty if that makes
            no sense.
        both_orders: Ask twice, the second time with the texts in reverse order, and take the
            mean: for comparisons of two texts.
        empty_response: Score of an empty response, for which no judge is called; None if the rubric
            asks about the content of the response, so that such a row has no score.
    """

    name: str
    summary: str
    scale: tuple[int, int]
    needs: tuple[str, ...]
    task: str
    levels: Mapping[str, str]
    high_example: RubricExample
    low_example: RubricExample
    higher_is_better: bool = True
    over_passages: OverPassages = ""
    both_orders: bool = False
    empty_response: int | None = None

    def __hash__(self) -> int:
        """By name and task, so that derived values can be cached."""
        return hash((self.name, self.task))

    @property
    def fingerprint(self) -> str:
        """Hash of its content: scores are comparable only with equal fingerprints."""
        return text_hash(canonical_json(dataclasses.asdict(self)))


def load_rubrics(folder: Path) -> dict[str, Rubric]:
    """A project's own rubrics by name, from ``rubrics/*.yaml`` in its folder.

    Raises:
        ConfigError: A file is wrong; with file and line.
    """
    rubrics = {}
    for path in sorted((folder / _FOLDER).glob("*.yaml")):
        label = f"{_FOLDER}/{path.name}"
        rubrics[path.stem] = rubric_of(read_yaml(path, label), path.stem)
    return rubrics


@cache
def load_shipped_rubrics() -> Mapping[str, Rubric]:
    """The rubrics that ship, by name."""
    rubrics = {}
    folder = files("ragwright.measure") / "data" / _FOLDER
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        name = file.name.removesuffix(".yaml")
        rubrics[name] = rubric_of(parse_yaml(file.read_text("utf-8"), file.name), name)
    return rubrics


@cache
def prompts_fingerprint() -> str:
    """Hash of a judge's prompt without the rubric."""
    folder = files("ragwright.measure") / "data" / "prompts"
    contents = sorted((file.name, file.read_text("utf-8")) for file in folder.iterdir())
    return text_hash(canonical_json(contents))


def find_rubric(name: str, own: Mapping[str, Rubric]) -> Rubric:
    """The project's rubric with this name, else the shipped one.

    Raises:
        MeasureError: There is neither, or the project's has the name of a shipped one but another
            scale or direction, which tables and intervals rely on.
    """
    shipped = load_shipped_rubrics().get(name)
    rubric = own.get(name, shipped)
    if rubric is None:
        raise MeasureError(
            f"unknown rubric {name!r}",
            where=f"{_FOLDER}/{name}.yaml",
            hint=suggest_name(name, {**load_shipped_rubrics(), **own}),
        )
    for path, fault in () if rubric is shipped else _rubric_faults(rubric, name):
        raise MeasureError(fault, where=f"{_FOLDER}/{name}.yaml: {'.'.join(path)}")
    if shipped is not None and (rubric.scale, rubric.higher_is_better) != (
        shipped.scale,
        shipped.higher_is_better,
    ):
        raise MeasureError(
            f"the rubric {name!r} has the scale {rubric.scale}, {name} is on {shipped.scale}",
            where=f"{_FOLDER}/{name}.yaml",
            hint="keep the scale and direction, or rename the file",
        )
    return rubric


def rubric_of(placed: Placed, name: str) -> Rubric:
    """The rubric in a file's mapping.

    Raises:
        ConfigError: An unknown key, a level without description, an example outside the scale or
            without a text; with file and line.
    """
    rubric = build_options(Rubric, placed.value, placed, ())
    for path, fault in _rubric_faults(rubric, name):
        raise ConfigError(
            fault, where=placed.where(*path), hint="the shipped rubrics show the form of the file"
        )
    return rubric


def _rubric_faults(rubric: Rubric, name: str) -> list[tuple[tuple[str, ...], str]]:
    """The faults of a rubric: path of keys and sentence."""
    faults: list[tuple[tuple[str, ...], str]] = []
    if rubric.name != name or not NAME.fullmatch(name):
        faults.append(
            (
                ("name",),
                f"name is {rubric.name!r} in a file called {name!r}; both must be "
                "the same: a letter, then letters, digits, _ and -",
            )
        )
    for key in ("summary", "task"):
        if not getattr(rubric, key).strip():
            faults.append(((key,), f"{key} must not be empty"))
    low, high = rubric.scale
    if not 0 <= low < high <= 100:
        faults.append(
            (("scale",), f"scale must rise from 0 or more to 100 at most, not {low}-{high}")
        )
    faults += _level_faults(rubric)
    unknown = [field for field in rubric.needs if field not in FIELDS]
    if unknown or not rubric.needs or len(set(rubric.needs)) < len(rubric.needs):
        faults.append((("needs",), f"needs must name each once some of {', '.join(FIELDS)}"))
        return faults
    if rubric.over_passages and "retrieved_contexts" not in rubric.needs:
        faults.append((("over_passages",), "over_passages needs retrieved_contexts"))
    if rubric.both_orders and len(rubric.needs) < 2:
        faults.append((("both_orders",), "both_orders needs two texts at least"))
    if rubric.empty_response is not None and not low <= rubric.empty_response <= high:
        faults.append((("empty_response",), f"empty_response must be on the scale {low}-{high}"))
    for key in ("high_example", "low_example"):
        faults += _example_faults(rubric, key)
    if not faults:
        best, worst = rubric.high_example.score, rubric.low_example.score
        if best <= worst:
            faults.append(
                (("high_example", "score"), f"the high example has {best}, the low one {worst}")
            )
    return faults


def _level_faults(rubric: Rubric) -> list[tuple[tuple[str, ...], str]]:
    levels = [str(level) for level in range(rubric.scale[0], rubric.scale[1] + 1)]
    faults: list[tuple[tuple[str, ...], str]] = [
        (("levels", key), f"level {key} is not on the scale {levels[0]} to {levels[-1]}")
        for key in rubric.levels
        if levels and key not in levels
    ]
    for key in levels:
        line = rubric.levels.get(key, "").strip()
        if not line:
            faults.append((("levels",), f"level {key} is not described"))
        elif "\n" in line:
            faults.append((("levels", key), f"level {key} must be one line"))
    return faults


def _example_faults(rubric: Rubric, key: str) -> list[tuple[tuple[str, ...], str]]:
    example: RubricExample = getattr(rubric, key)
    faults: list[tuple[tuple[str, ...], str]] = []
    if not rubric.scale[0] <= example.score <= rubric.scale[1]:
        faults.append(((key, "score"), f"{key} has the score {example.score}, not on the scale"))
    if not example.reasoning.strip():
        faults.append(((key, "reasoning"), f"{key} has no reasoning"))
    for field in FIELDS:
        texts = getattr(example, field)
        has_texts = bool(texts) and all(
            text.strip() for text in (texts if field in _SEVERAL else (texts,))
        )
        if field in rubric.needs and not has_texts:
            faults.append(((key,), f"{key} has no {field}"))
        if field not in rubric.needs and texts:
            faults.append(((key, field), f"{key} has {field}, which the rubric does not need"))
    return faults
