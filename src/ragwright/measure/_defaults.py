"""The measures for some rows, chosen by their columns and the configured models."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median

from ..core import MeasureError, Row
from ._judged import set_rubric_scales
from ._measure import Measure, parse_measure, parse_measures
from ._retrieval import read_mark
from ._rubric import MeasureSetup
from ._score import missing_fields
from ._text import SHORT_WORDS, language_of, references_of
from ._words import answer_words

JUDGED = ("Faithfulness", "AnswerRelevance", "ContextRelevance", "Pairwise")
"""Used if a chat model judges."""

GROUNDING = "KPrecision(content+bigrams)"
"""Used if none does. Content words alone miss a summary that recombines the words of its article;
bigrams detect it, and cost little elsewhere (docs/measures.md)."""

SHORT, WHOLE = "Contains", "TokenF1"
WITH_TOKENS = "BERTScore(recall)"
"""Added if a token model is set: no other measure agreed better with people's verdicts."""

IN_PASSAGES = "AnswerRecall"
"""Used for rows of a retriever without other gold than the answer. `Contains` and it need short
references: of longer ones `Contains` is 0 for good and bad answers alike, as for all 274 pairs of
RAGChecker (docs/measures.md)."""

REFUSALS = {"RejectionRate": False, "FalseRejectionRate": True}
"""Used if rows are marked ``answerable``: the measure -> the mark of its rows."""

RANKING = "nDCG@10, Recall@100, MRR@10"
"""For rankings only, with their usual depths."""


@dataclass(frozen=True, slots=True)
class ChosenMeasures:
    """The chosen measures, and those considered but left out, each with the reason."""

    measures: tuple[Measure, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """The measures left out and why, in one line; empty if there are none."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            by_reason.setdefault(reason, []).append(name)
        parts = [f"{', '.join(names)} ({reason})" for reason, names in by_reason.items()]
        return f"not measured: {'; '.join(parts)}" if parts else ""


def ranking_measures(named: str | Sequence[Measure] = "") -> tuple[Measure, ...]:
    """The named measures, else the defaults for rankings.

    Raises:
        MeasureError: A name is wrong.
    """
    return set_rubric_scales(parse_measures(named or RANKING), {})


def default_measures(
    rows: Iterable[Row], setup: MeasureSetup | None = None, *, hits: int | None = None
) -> ChosenMeasures:
    """The measures for some rows, chosen by their columns and the configured models.

    Rankings if there is gold; `AnswerRecall@5` for rows of a retriever (passages, no response)
    whose only gold is the answer; judged measures if a chat model judges, else
    `KPrecision(content+bigrams)`; `TokenF1` against references, and `Contains` if at least half of
    them have at most 5 words; `BERTScore(recall)` if a token model is set; `RejectionRate` and
    `FalseRejectionRate` if rows are marked ``answerable``.

    Args:
        rows: Rows to measure; read once, one in memory at a time.
        setup: Models; without any, no chosen measure needs one.
        hits: Most passages of an answer, the limit of cutoffs. None: unknown.
    """
    chosen = setup or MeasureSetup()
    depth = 10 if hits is None else hits
    ranking = [f"nDCG@{min(10, depth)}", f"Recall@{min(5, depth)}"]
    in_passages = f"{IN_PASSAGES}@{min(5, depth)}"
    answered = [*JUDGED, GROUNDING, SHORT, WHOLE, WITH_TOKENS, *REFUSALS]
    thought_of = [*ranking, in_passages, *answered]
    facts = _row_facts(rows, parse_measures(thought_of), chosen)
    left_out = {name: _reason_left_out(name, facts, chosen) for name in thought_of}
    return ChosenMeasures(
        tuple(parse_measure(name) for name in thought_of if not left_out[name]),
        {
            name: reason
            for name, reason in left_out.items()
            if reason and (name != in_passages or facts.retriever) and name not in REFUSALS
        },
    )


@dataclass(frozen=True, slots=True)
class _RowFacts:
    """Facts about the rows: fields missing for each measure, lengths of references, answers."""

    least: Mapping[str, tuple[str, ...]]
    words: float
    retriever: bool
    """No row has a response."""
    marks: frozenset[bool | None] = frozenset()
    """What ``answerable`` says in the rows."""

    @property
    def ranked(self) -> bool:
        """True if a row has gold documents or spans, and a ranking."""
        return any(
            name.startswith("Recall@") and not lacking for name, lacking in self.least.items()
        )


def _row_facts(rows: Iterable[Row], measures: Sequence[Measure], setup: MeasureSetup) -> _RowFacts:
    least: dict[str, tuple[str, ...]] = {}
    words = array("l")
    retriever, marks = True, set[bool | None]()
    for row in rows:
        with suppress(MeasureError):  # of a mark that cannot be read; the row's scores say so
            marks.add(read_mark(row, "answerable"))
        retriever = retriever and row.response is None
        for measure in measures:
            best = least.get(str(measure))
            if best is None or best:
                lacking = missing_fields(row, measure.definition)
                least[str(measure)] = lacking if best is None else min(best, lacking, key=len)
        if references := references_of(row):
            language = language_of(row, setup)
            words.append(min(len(answer_words(text, language)) for text in references))
    return _RowFacts(least, median(words) if words else 0, retriever, frozenset(marks))


def _reason_left_out(name: str, facts: _RowFacts, setup: MeasureSetup) -> str:
    least = facts.least.get(name)
    if least is None:
        return "no rows"
    if least:
        quoted = ", or reference_contexts" if "reference_ids" in least else ""
        return f"no row has {' and '.join(least)}{quoted}"
    if name in REFUSALS and REFUSALS[name] not in facts.marks:
        return "no row is marked for it"
    if name.startswith(IN_PASSAGES) and facts.ranked:
        return "gold documents or passages are measured"
    if name.startswith(IN_PASSAGES) and not facts.retriever:
        return "rows have a response: its own measures say more"
    if name in JUDGED and not setup.model:
        return "no chat model judges: `judge.model`"
    if name == WITH_TOKENS and not setup.token_model:
        return "no model of tokens: `judge.token_model`"
    if name == GROUNDING and setup.model:
        return "the judged Faithfulness is used"
    long = name == SHORT and facts.words > SHORT_WORDS
    return f"half of the references have {facts.words:.0f} words or more" if long else ""
