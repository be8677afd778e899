"""Which measures are taken where none are named, and why others are not."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from ..core import Row
from ._measure import Measure, parse_measure, parse_measures
from ._score import missing_fields
from ._setup import MeasureSetup
from ._text import language_of, references_of
from ._words import answer_words

JUDGED = ("Faithfulness", "AnswerRelevance", "ContextRelevance", "Pairwise")
"""Taken where a chat model judges (SPEC A9)."""

GROUNDING = "KPrecision(content+bigrams)"
"""Taken where none does. Content words alone miss a summary that recombines the words of its
article; bigrams see it, and cost little elsewhere (docs/measures.md)."""

SHORT, WHOLE = "Contains", "TokenF1"
WITH_TOKENS = "BERTScore(recall)"
"""Taken too where a token model is set: nothing followed people's verdicts on answers closer."""

SHORT_WORDS = 5
"""Most words of a short reference. A longer one is hardly ever repeated word for word: `Contains`
is then 0 for good and bad answers alike, as for all 274 pairs of RAGChecker (docs/measures.md)."""

RANKING = "nDCG@10, Recall@100, MRR@10"
"""For rankings alone, which are as deep as these look."""


@dataclass(frozen=True, slots=True)
class ChosenMeasures:
    """Measures to take, and those that were thought of and left out, each with the reason."""

    measures: tuple[Measure, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """What was left out and why, in one line; empty where nothing was."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            by_reason.setdefault(reason, []).append(name)
        said = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
        return f"not measured: {'; '.join(said)}" if said else ""


def ranking_measures(named: str | Sequence[Measure] = "") -> tuple[Measure, ...]:
    """The measures that are named, else the defaults of rankings.

    Raises:
        MeasureError: A name is wrong.
    """
    return parse_measures(named or RANKING)


def default_measures(
    rows: Iterable[Row], setup: MeasureSetup | None = None, *, hits: int | None = None
) -> ChosenMeasures:
    """The measures that suit rows, chosen by what they hold and by which models are set.

    Rankings where there is gold; judged measures where a chat model judges, else
    `KPrecision(content+bigrams)`; `TokenF1` against references, and `Contains` where at least
    half of them have at most 5 words; `BERTScore(recall)` where a token model is set.

    Args:
        rows: What is to be measured; read once, one in memory at a time.
        setup: Models; without any, nothing that is chosen asks one.
        hits: Most passages of an answer; no ranking is measured deeper. None: unknown.
    """
    chosen = setup or MeasureSetup()
    depth = 10 if hits is None else hits
    ranking = [f"nDCG@{min(10, depth)}", f"Recall@{min(5, depth)}"]
    thought_of = [*ranking, *JUDGED, GROUNDING, SHORT, WHOLE, WITH_TOKENS]
    seen = _seen(rows, parse_measures(thought_of), chosen)
    left_out = {name: _reason(name, seen, chosen) for name in thought_of}
    return ChosenMeasures(
        tuple(parse_measure(name) for name in thought_of if not left_out[name]),
        {name: reason for name, reason in left_out.items() if reason},
    )


@dataclass(frozen=True, slots=True)
class _Seen:
    """What rows hold: the least that any of them lacks for a measure, lengths of references."""

    least: Mapping[str, tuple[str, ...]]
    words: float


def _seen(rows: Iterable[Row], measures: Sequence[Measure], setup: MeasureSetup) -> _Seen:
    """Look through rows once, holding one at a time."""
    least: dict[str, tuple[str, ...]] = {}
    words = array("l")
    for row in rows:
        for measure in measures:
            best = least.get(str(measure))
            if best is None or best:
                lacking = missing_fields(row, measure.definition)
                least[str(measure)] = lacking if best is None else min(best, lacking, key=len)
        if references := references_of(row):
            language = language_of(row, setup)
            words.append(min(len(answer_words(text, language)) for text in references))
    return _Seen(least, median(words) if words else 0)


def _reason(name: str, seen: _Seen, setup: MeasureSetup) -> str:
    """Why a measure is left out, empty where it is taken."""
    least = seen.least.get(name)
    if least is None:
        return "no rows"
    if least:
        return f"no row has {' and '.join(least)}"
    if name in JUDGED and not setup.model:
        return "no chat model judges: `judge.model`"
    if name == WITH_TOKENS and not setup.token_model:
        return "no model of tokens: `judge.token_model`"
    if name == GROUNDING and setup.model:
        return "Faithfulness asks the judge"
    long = name == SHORT and seen.words > SHORT_WORDS
    return f"half of the references have {seen.words:.0f} words or more" if long else ""
