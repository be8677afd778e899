"""A measure as a value: its text is its name in code, YAML, table headers and stored runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..core import MeasureError, nearest_name
from ._catalogue import definitions, find
from ._definition import Definition, MeasureScale
from ._rubric import NAME

_ROUGE = re.compile(r"(?i)rouge[-_ ]?([1-9]|l|w|s|su)")
_TEXT = re.compile(r"([A-Za-z]\w*)(?:\(([^()]*)\))?(?:@(\d{1,9}))?")
_CUSTOM = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_LONGEST = 500  # characters of a measure's text; numbers in it must be short enough for int()
_COMMA = re.compile(r",(?![^(]*\))")  # not inside brackets


@dataclass(frozen=True, slots=True, repr=False)
class Measure:
    """A measure with its parameter in brackets and its cutoff after ``@``.

    ``str(measure)`` parses back to an equal measure; a parameter that is the default is
    dropped, so that one measure has one text. ``scale`` is that of a rubric file or of a custom
    function, which the text does not contain; see :func:`set_scale`.

    Raises:
        MeasureError: No such measure, parameter or cutoff.
    """

    name: str
    parameter: str = ""
    cutoff: int | None = None
    scale: MeasureScale | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Refuse unknown parts, and normalise the parameter."""
        definition = find(self.name)
        if definition is None or (":" in self.name and not _CUSTOM.fullmatch(self.name)):
            raise unknown_measure(self.name)
        object.__setattr__(self, "parameter", _parameter(definition, self.parameter, str(self)))
        if self.cutoff is None:
            wrong = definition.cutoff == "required"
        else:
            wrong = definition.cutoff == "none" or self.cutoff < 1
        if wrong:
            raise MeasureError(
                f"{self} has a wrong cutoff"
                if self.cutoff is not None
                else f"{self} needs a cutoff",
                hint=f"write {definition.form}, k from 1, for example "
                f"{self.name}{'' if definition.cutoff == 'none' else '@10'}",
            )

    def __str__(self) -> str:
        """The text that parses back."""
        brackets = f"({self.parameter})" if self.parameter else ""
        return f"{self.name}{brackets}" + ("" if self.cutoff is None else f"@{self.cutoff}")

    __repr__ = __str__

    @property
    def definition(self) -> Definition:
        """Its needs, range, direction and source."""
        definition = find(self.name)
        assert definition is not None  # checked in __post_init__
        own = self.scale
        if own is None:
            return definition
        return replace(
            definition, low=own.low, high=own.high, higher_is_better=own.higher_is_better
        )

    @property
    def known_scale(self) -> MeasureScale | None:
        """Range and direction; None if neither the measure nor its file or code states it."""
        if self.scale is None and not self.definition.states_scale:
            return None
        return self.definition.scale


def set_scale(measure: Measure, scale: MeasureScale | None) -> Measure:
    """The measure with the scale of its file or function; other measures are unchanged."""
    if scale is None or measure.definition.states_scale:
        return measure
    return replace(measure, scale=scale)


def parse_measure(text: str) -> Measure:
    """The measure written as a text such as ``nDCG@10`` or ``Recall(rel=2)@100``.

    Names of other tools are read too where a measure of ours has their definition: ragas'
    ``faithfulness`` is ``Claims``, ``recip_rank`` ``MRR``, ``ROUGE-L`` ``ROUGE(L)``. So are ours in
    other capitals, unless another tool calls something else so. ``module:function`` is a function
    of the user; it is not imported here.

    Raises:
        MeasureError: Not of that form, or unknown; the nearest known name is given.
    """
    if len(text) <= _LONGEST and _CUSTOM.fullmatch(text.strip()):
        return Measure(text.strip())
    if rouge := _ROUGE.fullmatch(text.strip()):
        return Measure("ROUGE", rouge[1].upper())
    match = _TEXT.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        raise MeasureError(
            f"cannot read {text.strip()[:_LONGEST]!r} as a measure",
            hint="write Name, Name@k or Name(parameter)@k, for example nDCG@10; or module:function",
        )
    name, parameter, cutoff = match.groups()
    if find(name) is None:
        in_lower_case = {definition.name.lower(): definition.name for definition in definitions()}
        lower = name.lower()
        name = OTHER_NAMES.get(name) or OTHER_NAMES.get(lower) or in_lower_case.get(lower, name)
        if not parameter:
            name, _, parameter = name.removesuffix(")").partition("(")
    return Measure(name, parameter or "", None if cutoff is None else int(cutoff))


def parse_measures(texts: str | Iterable[str | Measure]) -> tuple[Measure, ...]:
    """Several measures, from a text with commas or from a list, in order.

    Raises:
        MeasureError: One is wrong or named twice, or there is none.
    """
    parts: Iterable[str | Measure] = _COMMA.split(texts) if isinstance(texts, str) else texts
    measures: list[Measure] = []
    for part in parts:
        measure = part if isinstance(part, Measure) else parse_measure(part)
        if measure in measures:
            raise MeasureError(f"{measure} is given twice", hint="write each measure once")
        measures.append(measure)
    if not measures:
        raise MeasureError("no measure is given", hint="for example nDCG@10, Recall@100")
    return tuple(measures)


def _parameter(definition: Definition, given: str, text: str) -> str:
    """The canonical parameter: without spaces, whole numbers plain, the default omitted.

    The forms ``name`` and ``column`` mean any name and any text, kept as they are.
    """
    if "column" in definition.parameters and given.strip().isprintable() and given.strip():
        return given.strip()
    if "name" in definition.parameters and NAME.fullmatch(given.strip()):
        return given.strip()
    parameter = re.sub(r"\d+", lambda m: str(int(m[0])), re.sub(r"\s", "", given))
    if not parameter and definition.parameters and not definition.default:
        raise MeasureError(f"{text} needs a parameter", hint=f"write {definition.form}")
    usual = definition.default.split(",")
    parameter = ",".join(part for part in parameter.split(",") if part not in usual)
    if not parameter:
        return ""
    parts = sorted(parameter.split("+"))
    for form in definition.parameters:
        if "+" in form and sorted(form.split("+")) == parts:
            return form
        if re.fullmatch(re.escape(form).replace("N", "[1-9][0-9]*"), parameter):
            return parameter
    hint = f"write {definition.form}"
    if not definition.parameters:
        raise MeasureError(f"{definition.name} takes no parameter, given {text}", hint=hint)
    raise MeasureError(f"unknown parameter {given!r} in {text}", hint=hint)


def unknown_measure(name: str) -> MeasureError:
    """The error for an unknown name, with the nearest known one."""
    names = {definition.name: definition for definition in definitions()}
    near = nearest_name(name, names, least=0.5)
    hint = f"did you mean {names[near].example}?" if near else "`ragwright measures` lists them"
    return MeasureError(f"unknown measure {name!r}", hint=hint)


OTHER_NAMES: Mapping[str, str] = {
    "answer_relevancy": "QuestionSimilarity",
    "AnswerRelevancy": "QuestionSimilarity",
    "ap": "MAP",
    "average_precision": "MAP",
    "context_precision": "JudgedAveragePrecision",
    "context_recall": "JudgedRecall(reference)",
    "ContextPrecision": "JudgedAveragePrecision",
    "ContextRecall": "JudgedRecall(reference)",
    "em": "ExactMatch",
    "exact_match": "ExactMatch",
    "f1": "TokenF1",
    "faithfulness": "Claims",
    "hit": "HitRate",
    "hit_rate": "HitRate",
    "hits": "HitRate",
    "levenshtein": "EditDistance",
    "LLMContextRecall": "JudgedRecall(reference)",
    "mean_average_precision": "MAP",
    "mean_reciprocal_rank": "MRR",
    "p": "Precision",
    "r": "Recall",
    "recip_rank": "MRR",
    "response_relevancy": "QuestionSimilarity",
    "ResponseRelevancy": "QuestionSimilarity",
    "rr": "MRR",
    "success": "HitRate",
    "token_f1": "TokenF1",
}
"""A name of ragas, trec_eval, ir_measures or SQuAD -> our measure with the same definition."""

_THEIRS = {
    "Claims": "faithfulness",
    "JudgedAveragePrecision": "context_precision",
    "JudgedRecall(reference)": "context_recall",
    "QuestionSimilarity": "answer_relevancy",
}


def name_in_ragas(measure: str) -> str:
    """The name of a measure in ragas, by its text without a cutoff; empty where it has none."""
    return _THEIRS.get(measure.partition("@")[0], "")
