"""Rubrics of judges, judges of plug-ins, and the settings of measures besides rows."""

from __future__ import annotations

import dataclasses
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from ..core import (
    ConfigError,
    MeasureError,
    Placed,
    PluginError,
    RagwrightError,
    Row,
    Score,
    build_options,
    canonical_json,
    load_shipped_mapping,
    make_addition,
    option,
    parse_yaml,
    read_yaml,
    suggest_name,
    text_hash,
)
from ..flow import Flow
from ._definition import MeasureScale

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
    both_orders: bool = False
    empty_response: int | None = None

    @property
    def measure_scale(self) -> MeasureScale:
        """Range and direction."""
        return MeasureScale(*self.scale, self.higher_is_better)

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
    return text_hash(
        canonical_json(sorted((file.name, file.read_text("utf-8")) for file in folder.iterdir()))
    )


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
    key, fault = _find_fault(rubric, name)
    if fault:
        raise MeasureError(fault, where=f"{_FOLDER}/{name}.yaml: {key}")
    if shipped is not None and rubric.measure_scale != shipped.measure_scale:
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
    key, fault = _find_fault(rubric, name)
    if fault:
        raise ConfigError(
            fault,
            where=placed.where(*key.split(".")),
            hint="the shipped rubrics show the form of the file",
        )
    return rubric


_Check: TypeAlias = tuple[bool, str, str]
"""Whether something is wrong, where (keys with dots), and the sentence that says so."""


def _find_fault(rubric: Rubric, name: str) -> tuple[str, str]:
    """The first fault of a rubric: its key, with dots, and a sentence; both empty without one."""
    low, high = rubric.scale
    needs, lines = rubric.needs, {key: line.strip() for key, line in rubric.levels.items()}
    levels = list(map(str, range(low, high + 1)))
    checks: list[_Check] = [
        (
            rubric.name != name or not NAME.fullmatch(name),
            "name",
            f"name is {rubric.name!r} in a file called {name!r}; both must be the same: a letter, "
            "then letters, digits, _ and -",
        ),
        (not rubric.summary.strip(), "summary", "summary must not be empty"),
        (not rubric.task.strip(), "task", "task must not be empty"),
        (
            not 0 <= low < high <= 100,
            "scale",
            f"scale must rise from 0 or more to 100 at most, not {low}-{high}",
        ),
        *(
            (key not in levels, f"levels.{key}", f"level {key} is not on the scale {low} to {high}")
            for key in lines
        ),
        *((not lines.get(key), "levels", f"level {key} is not described") for key in levels),
        *(("\n" in lines[key], f"levels.{key}", f"level {key} must be one line") for key in lines),
        (
            not needs or len(set(needs)) < len(needs) or not set(needs) <= set(FIELDS),
            "needs",
            f"needs must name each once some of {', '.join(FIELDS)}",
        ),
        (
            rubric.both_orders and len(needs) < 2,
            "both_orders",
            "both_orders needs two texts at least",
        ),
        (
            rubric.empty_response is not None and not low <= rubric.empty_response <= high,
            "empty_response",
            f"empty_response must be on the scale {low}-{high}",
        ),
        *_example_checks(rubric, "high_example"),
        *_example_checks(rubric, "low_example"),
        (
            rubric.high_example.score <= rubric.low_example.score,
            "high_example.score",
            f"the high example has {rubric.high_example.score}, the low one "
            f"{rubric.low_example.score}",
        ),
    ]
    return next(((key, sentence) for wrong, key, sentence in checks if wrong), ("", ""))


def _example_checks(rubric: Rubric, key: str) -> Iterator[_Check]:
    example: RubricExample = getattr(rubric, key)
    on_scale = rubric.scale[0] <= example.score <= rubric.scale[1]
    yield not on_scale, f"{key}.score", f"{key} has the score {example.score}, not on the scale"
    yield not example.reasoning.strip(), f"{key}.reasoning", f"{key} has no reasoning"
    for field in FIELDS:
        given = getattr(example, field)
        texts = given if field in _SEVERAL else (given,)
        if field in rubric.needs:
            missing = not texts or not all(text.strip() for text in texts)
            yield missing, key, f"{key} has no {field}"
        else:
            needless = f"{key} has {field}, which the rubric does not need"
            yield bool(given), f"{key}.{field}", needless


ERRORS = ("factual error", "factual errors", "erreur factuelle", "erreurs factuelles")


@dataclass(frozen=True, slots=True)
class MeasureSetup:
    """The settings of measures; a measure without its model is not applicable.

    A row's ``metadata["language"]`` overrides ``language``.
    """

    model: str = option("", "Chat model that judges.")
    by: str = option(
        "",
        "Judge of a plug-in that judges by rubrics instead of the chat model: its name, or "
        "module:object.",
    )
    language: str = option("en", "ISO code of the texts, for articles, stems and stop words.")
    embedder: str = option("", "Embedding model of ChunkScore and QADistance.")
    token_model: str = option(
        "",
        "Local transformer of BERTScore and MoverScore: FOLDER, st:FOLDER or hf:ORG/NAME "
        "(`[torch]`).",
    )
    completer: str = option(
        "", "Model whose server echoes prompts with log-probabilities, for Perplexity."
    )
    rejection_cues: tuple[str, ...] = option(
        (),
        "Words by which a response is recognised as a refusal to answer, besides the shipped ones "
        "(English, German, French, Spanish); `a|b` is either word, `=unknown` the whole response.",
    )
    error_cues: tuple[str, ...] = option(
        ERRORS, "Words by which a response is recognised as reporting an error in the passages."
    )
    max_tokens: int = option(1000, "Most tokens of a judge's reply.", ge=50)
    temperature: float = option(0.0, "Temperature of the judge; equal for all repeats.", ge=0)
    window: int | None = option(
        None, "Most tokens of the judge's prompt and replies together; empty: unknown.", ge=1
    )
    repeat: int = option(1, "Independent judgments of each row; their mean is its score.", ge=1)
    rubrics: Mapping[str, Rubric] = option(
        dict, "Your own rubrics by name, in addition to those in the folder `rubrics`."
    )

    @property
    def refusals(self) -> tuple[str, ...]:
        """The cues by which a refusal is recognised."""
        return (*load_shipped_refusals(), *self.rejection_cues)


@cache
def load_shipped_refusals() -> tuple[str, ...]:
    """The shipped cues of refusals, of all languages."""
    by_language = load_shipped_mapping("measure", "cues/rejections.yaml").values
    return tuple(cue for language in by_language for cue in by_language[language])


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict on a row.

    Attributes:
        score: On the rubric's scale; None if the judge gives none.
        reasoning: Why, or why there is no score.
    """

    score: float | None
    reasoning: str = ""


class Judge(ABC):
    """Judges rows by rubrics, such as a trained classifier or another program's judge.

    A process makes it once, for all rows.
    """

    @abstractmethod
    def judge(self, row: Row, rubric: Rubric, sample: int) -> Flow[Verdict]:
        """The verdict on a row.

        Args:
            row: The row; it has the texts that ``rubric.needs`` names.
            rubric: Task, scale and levels.
            sample: Number of this independent judgment, from 0; a judge without chance ignores it.
        """


@cache
def open_judge(name: str) -> Judge:
    """The judge of a name, made once: it may load a model.

    Raises:
        PluginError: It cannot be loaded, or is not a judge.
    """
    return make_addition("judges", name, Judge, "judge.by")  # type: ignore[type-abstract]


def ask_own_judge(row: Row, rubric: Rubric, judge: str, sample: int) -> Flow[Score]:
    """The score of a row by the judge of a plug-in.

    Returns:
        ``judge_invalid`` where its verdict has no score, or one that is not on the scale.

    Raises:
        PluginError: It cannot be loaded, fails, or is not a judge.
    """
    try:
        verdict = yield from open_judge(judge).judge(row, rubric, sample)
    except RagwrightError:
        raise
    except Exception as error:
        raise PluginError(
            f"the judge {judge!r} failed: {type(error).__name__}: {error}", where="judge.by"
        ) from error
    if not isinstance(verdict, Verdict):
        raise PluginError(
            f"the judge {judge!r} returned {type(verdict).__name__}, not a Verdict",
            where="judge.by",
        )
    if verdict.score is None:
        return Score(rubric.name, "judge_invalid", reason=verdict.reasoning or "it gave no score")
    low, high = rubric.scale
    if not math.isfinite(verdict.score) or not low <= verdict.score <= high:
        return Score(
            rubric.name,
            "judge_invalid",
            reason=f"the score {verdict.score:g} is not on the scale {low}-{high}",
        )
    return Score(rubric.name, "scored", float(verdict.score), detail=verdict.reasoning)
