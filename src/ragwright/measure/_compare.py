"""Compare two systems row by row: whether the second is better, and how certain that is."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any, Literal, TypeAlias

import numpy as np

from ..core import MeasureError, Score, count_noun, frame_of, html_table
from ._definition import MeasureScale
from ._retrieval import all_counted, count_as_worst, explain_counted_apart
from ._statistics import find_scale
from .statistics import (
    FEW_SEEN,
    LEVEL,
    NORMAL,
    POWER,
    Values,
    difference_interval,
    holm,
    number_clusters,
    p_text,
    permutation_p,
    smallest_difference,
    standard_error,
    unseen_interval,
)

Scored: TypeAlias = Mapping[str, Sequence[Score]]
"""Row id -> its scores, one per measure."""

Verdict: TypeAlias = Literal["better", "worse", "no change proven"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of b with a by one measure, on the rows scored in both.

    Where a system abstained on rows with gold, ``with_abstained`` is the same comparison with these
    rows at the worst value of the scale. It decides: ``verdict``, ``doubt`` and ``text`` are its
    own.

    Attributes:
        measure: Text of the measure.
        n: Rows compared.
        coverage: Share of all rows (without those that lack gold) that are compared, 0 to 1.
        mean_a: Mean of a over these rows; likewise ``mean_b``.
        difference: ``mean_b - mean_a``.
        low: Lower end of the 95 % interval of the difference, ``high`` its upper end. On a side of
            0 with fewer than five rows or clusters it allows for kinds of rows too rare to be in
            the sample, within the scale. None below two rows or clusters, and if the scale is
            unbounded and all differences are equal.
        p: Two-sided p-value of the paired permutation test.
        p_holm: The larger of ``p`` and ``p_rare``, corrected for all measures compared together
            (Holm 1979).
        error: Standard error of the difference, over clusters if there are some.
        wins: Rows on which b is better; likewise ``ties`` and ``losses``.
        only_a: Rows with a score only in a; likewise ``only_b``.
        moved: ``scored -> abstained`` and the like -> ids of the rows whose state differs between a
            and b.
        no_gold: Rows without the gold that the measure needs; not part of the coverage.
        smallest: Smallest difference that this many rows detect with 80 % power.
        verdict: ``better`` or ``worse`` (b than a, in the measure's direction) if ``p_holm`` is at
            most 0.05, the interval excludes 0 and there is no ``doubt``.
        clusters: Number of clusters compared, None if rows are independent.
        seed: Seed of flips and resampling.
        scale: Range and direction of the measure; None where they are not known.
        lost: Rows in both, with gold, that lack a score in at least one.
        lowest: The difference if all missing scores of b were at the lower end of the scale and
            those of a at the upper end; ``highest`` the reverse; None if the scale is unbounded
            there.
        incomparable: Why the scores of the two cannot be compared, for example two different
            judges.
        doubt: Why there is no verdict although the test shows a difference; else empty.
        p_rare: Two-sided p-value if kinds of rows too rare to be in the sample cancelled the
            difference: ``2 (w / (w + |difference|)) ** n``, w being the width of the scale and n
                the rows or clusters. None if the scale is unbounded, or if five or more of them go
                against the difference, so that the test includes such rows.
        unanswerable: Rows on which at least one of the two rightly abstained; not part of the
            coverage.
        counted: What a measure of retrieval counted in the compared rows: ``spans``,
            ``documents`` or both; empty for other measures.
        missed: Rows with gold in both on which at least one of the two abstained.
        questions: What the rows are if a program made them: ``generated questions``; else empty.
        with_abstained: The comparison in which an abstention on a row with gold has the worst value
            of the scale; None if there is none, or if the scale has no worst value.
    """

    measure: str
    n: int = 0
    coverage: float = 0.0
    mean_a: float | None = None
    mean_b: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    error: float | None = None
    wins: int = 0
    ties: int = 0
    losses: int = 0
    only_a: int = 0
    only_b: int = 0
    moved: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    no_gold: int = 0
    smallest: float | None = None
    verdict: Verdict = "no change proven"
    clusters: int | None = None
    seed: int = 0
    scale: MeasureScale | None = None
    lost: int = 0
    lowest: float | None = None
    highest: float | None = None
    incomparable: str = ""
    doubt: str = ""
    p_rare: float | None = None
    unanswerable: int = 0
    counted: tuple[str, ...] = ()
    missed: int = 0
    questions: str = ""
    with_abstained: Comparison | None = None

    @property
    def deciding(self) -> Comparison:
        """The comparison that decides: abstained rows count as the worst value."""
        return self.with_abstained or self

    @property
    def worded(self) -> str:
        """The verdict for readers: ``better on generated questions``."""
        return (
            f"{self.verdict} on {self.questions}"
            if self.verdict != "no change proven" and self.questions
            else self.verdict
        )

    @property
    def p_verdict(self) -> float | None:
        """The deciding p-value, before corrections: the larger of ``p`` and ``p_rare``."""
        return self.p if self.p is None or self.p_rare is None else max(self.p, self.p_rare)

    @property
    def furthest(self) -> tuple[float, float] | None:
        """The interval of the difference, extended for rare rows on both sides, for a proof.

        Rows that are not in the sample may be at either end of the scale (see
        :func:`ragwright.measure.least_rows`). None if there is no interval.
        """
        if self.low is None or self.high is None or self.difference is None:
            return None
        width = None if self.scale is None else self.scale.width
        if width is None:
            return self.low, self.high
        low, high = unseen_interval(self.difference, self.units, (-width, width))
        return min(self.low, low), max(self.high, high)

    @property
    def units(self) -> int:
        """Independent observations: clusters, or rows."""
        return self.n if self.clusters is None else self.clusters

    def provable(self, units: int, tests: int = 1) -> float | None:
        """Smallest difference that so many rows or clusters like these detect with 80 % power.

        None if it is unknown, 0 or beyond the scale. ``tests`` share the level.
        """
        if self.error is None:
            return None
        error = self.error * math.sqrt(self.units / units)
        against = min(self.wins, self.losses) / self.n * units
        width = None if self.scale is None else self.scale.width
        smallest = smallest_difference(error, tests)
        # A smaller mean could be reversed by rows that a sample of this size can miss.
        if width is not None and against < FEW_SEEN:
            missed = width * math.expm1(math.log(2 * tests / LEVEL) / units)
            smallest = max(smallest, missed + NORMAL.inv_cdf(POWER) * error)
        return None if not smallest or smallest > (width or math.inf) else smallest

    def outlook(self, noun: str = "row") -> str:
        """What these rows could prove, in a sentence; empty if a difference is proven."""
        if self.verdict != "no change proven" or self.difference is None or self._no_conclusion:
            return ""
        if self.units < 2:
            return f"1 {noun if self.clusters is None else 'cluster'} cannot prove a difference"
        if not self.wins + self.losses:
            return f"no {noun} differs"
        if self.smallest is None:
            return f"so few {noun}s cannot prove any difference"
        return f"this many {noun}s can prove a difference of about {self.smallest:.2g} or more"

    def beside_interval(self, p: float | None) -> str:
        """Why nothing is proven although the interval excludes 0; empty if it does not.

        ``p`` is the corrected p-value of the verdict.
        """
        if p is None or self.low is None or self.high is None or self.low <= 0 <= self.high:
            return ""
        if (self.p_verdict or 0.0) > LEVEL:
            return "the interval excludes 0, but the paired test does not"
        return f"the interval is not corrected for the number of tests, p = {p:.3f} is (Holm)"

    @property
    def text(self) -> str:
        """The verdict with its evidence, in a sentence."""
        decider = self.deciding
        if decider.difference is None:
            return f"{self.measure}: no row has a score in both runs, so they cannot be compared."
        evidence = f"{decider.difference:+.4f}"
        if decider.low is not None and decider.high is not None:
            evidence += f" (95 % interval {decider.low:+.4f} to {decider.high:+.4f})"
        evidence += f" on {count_noun(decider.n, 'row')}"
        if decider.clusters is not None:
            evidence += f" in {count_noun(decider.clusters, 'cluster')}"
        if decider.p_holm is not None:
            evidence += f", {p_text(decider.p_holm)}"
        verdict = "no verdict" if decider._no_conclusion else decider.worded
        parts = [f"{self.measure}: {verdict}, {evidence}"]
        # What a reader of the difference must know: doubts and rows needed.
        if decider._no_conclusion:
            parts.append(decider._no_conclusion)
        elif decider.verdict == "no change proven":
            if decider.p is not None and decider.p <= LEVEL < (decider.p_rare or 0.0):
                parts.append("rare kinds of rows that are not in this sample could reverse it")
            elif unlike := decider.beside_interval(decider.p_holm):
                parts.append(unlike)
            if outlook := decider.outlook():
                parts.append(outlook)
        return f"{'; '.join(parts)}{self._abstention_note()}."

    def _abstention_note(self) -> str:
        """The rule by which abstentions are counted, in brackets; empty if there are none."""
        if self.with_abstained is None or self.scale is None:
            return ""
        rows = count_noun(self.missed, "abstained row counts", "abstained rows count")
        answered = "no row was answered by both"
        if self.difference is not None:
            answered = f"{self.difference:+.4f} on the {self.n} that both answered"
        return f" ({rows} as {self.scale.worst:g}; {answered})"

    @property
    def _no_conclusion(self) -> str:
        """The reason why there is no conclusion; empty if there is one."""
        return self.incomparable or self.doubt


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Two systems compared by several measures.

    Attributes:
        measures: One comparison per measure of both, in a's order.
        only_a: Ids of rows that only a has; likewise ``only_b``.
        missing: Measures that only one of the two has.
    """

    measures: tuple[Comparison, ...]
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __getitem__(self, measure: str) -> Comparison:
        """The comparison for a measure's text."""
        return {comparison.measure: comparison for comparison in self.measures}[measure]

    def __repr__(self) -> str:
        """The verdict of every measure."""
        verdicts = ", ".join(
            f"{comparison.measure} {comparison.verdict}" for comparison in self.measures
        )
        return f"<Comparisons: {verdicts}>"

    def _repr_html_(self) -> str:
        """One line per measure, for a notebook, and how to read it."""
        names = ("mean_a", "mean_b", "difference", "low", "high", "p_holm")
        head = ("measure", "a", "b", "b - a", "from", "to", "p", "verdict")
        lines = (
            [c.measure, *(getattr(c.deciding, name) for name in names), c.verdict]
            for c in self.measures
        )
        how = (
            "a, b: means on the rows of both; from, to: 95 % interval of b - a; p: of Holm's test."
        )
        texts = (how, *(c.text for c in self.measures))
        return html_table(head, lines) + "".join(f"<p>{escape(text)}</p>" for text in texts)

    def to_pandas(self) -> Any:
        """A data frame with one line per measure.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return frame_of(
            [{**asdict(comparison), "text": comparison.text} for comparison in self.measures]
        )


def compare_rows(
    a: Scored,
    b: Scored,
    *,
    seed: int = 0,
    clusters: Mapping[str, Hashable] | None = None,
    scales: Mapping[str, MeasureScale | None] | None = None,
    incomparable: Mapping[str, str] | None = None,
    questions: str = "",
) -> Comparisons:
    """Compare b with a, row by row; rows in only one are reported, not dropped.

    Args:
        a: Row id -> scores of the first system.
        b: Likewise of the second system; verdicts are about this one.
        seed: Seed of flips and resampling.
        clusters: Row id -> cluster, if rows share a document: flipped and resampled whole.
        scales: Text of a measure -> its scale, if the text does not define it. Without a scale the
            direction is unknown, and there is no verdict.
        incomparable: Text of a measure -> why its scores in a and b cannot be compared.
        questions: What the rows are if a program made them, for the words of the verdict.

    Raises:
        MeasureError: A row has two scores of one measure, or no cluster, or the systems share
            no row or no measure.
    """
    tables = _scores_by_measure(a), _scores_by_measure(b)
    shared = [name for name in tables[0] if name in tables[1]]
    if not shared or not a.keys() & b.keys():
        kind = "row" if shared else "measure"
        detail = "" if shared else f": {' and '.join(', '.join(t) or 'none' for t in tables)}"
        raise MeasureError(
            f"the two have no {kind} in common{detail}",
            hint="compare two runs of the same rows by the same measures",
        )
    ids = list(dict.fromkeys([*a, *b]))
    check_clusters(ids, clusters)
    both_ways = []
    for name in shared:
        sides = tables[0][name], tables[1][name]
        bare = Comparison(
            name,
            seed=seed,
            scale=(scales or {}).get(name) or find_scale(name),
            incomparable=(incomparable or {}).get(name, ""),
            questions=questions,
        )
        both_ways.append(_compare_both_ways(bare, sides, ids, clusters))
    answered, counted_all = (_correct_for_tests(each) for each in zip(*both_ways, strict=True))
    return Comparisons(
        measures=tuple(
            replace(bare, verdict=with_all.verdict, doubt=with_all.doubt, with_abstained=with_all)
            if bare.missed and with_all.n > bare.n
            else with_all
            for bare, with_all in zip(answered, counted_all, strict=True)
        ),
        only_a=tuple(key for key in a if key not in b),
        only_b=tuple(key for key in b if key not in a),
        missing=tuple(name for name in (*tables[0], *tables[1]) if name not in shared),
    )


def check_clusters(ids: Iterable[str], clusters: Mapping[str, Hashable] | None) -> None:
    """Raise a MeasureError if a row has no cluster while others have one."""
    unclustered = [] if clusters is None else [key for key in ids if key not in clusters]
    if unclustered:
        raise MeasureError(
            f"row {unclustered[0]!r} has no cluster", hint="give a cluster to every row or to none"
        )


def pair_values(a: Mapping[str, Score], b: Mapping[str, Score]) -> list[tuple[str, float, float]]:
    """(row id, value in a, value in b) of the rows scored in both, in a's order."""
    pairs = []
    for key, score in a.items():
        score_b = b.get(key)
        if score.value is not None and score_b is not None and score_b.value is not None:
            pairs.append((key, score.value, score_b.value))
    return pairs


def _scores_by_measure(scored: Scored) -> dict[str, dict[str, Score]]:
    tables: dict[str, dict[str, Score]] = {}
    for key, scores in scored.items():
        for score in scores:
            of_measure = tables.setdefault(score.measure, {})
            if key in of_measure:
                raise MeasureError(
                    f"row {key!r} has two scores of {score.measure}",
                    hint="average the repeats of a row first",
                )
            of_measure[key] = score
    return tables


def find_moved_rows(a: Mapping[str, Score], b: Mapping[str, Score]) -> dict[str, tuple[str, ...]]:
    """``state in a -> state in b`` and the rows of both with this change, in a's order."""
    moves: dict[str, tuple[str, ...]] = {}
    for key, score in a.items():
        score_b = b.get(key)
        if score_b is not None and score_b.state != score.state:
            change = f"{score.state} -> {score_b.state}"
            moves[change] = (*moves.get(change, ()), key)
    return moves


def _compare_both_ways(
    bare: Comparison,
    sides: tuple[Mapping[str, Score], Mapping[str, Score]],
    ids: Sequence[str],
    clusters: Mapping[str, Hashable] | None,
) -> tuple[Comparison, Comparison]:
    """One measure on the rows scored in both, and with abstentions at the worst value."""
    a, b = sides
    bare = replace(bare, missed=sum(k in b and (s.missed or b[k].missed) for k, s in a.items()))
    answered = _compare_measure(bare, sides, ids, clusters)
    if not bare.missed or bare.scale is None or bare.scale.worst is None:
        return answered, answered
    a, b = ({key: count_as_worst(score, bare.scale) for key, score in s.items()} for s in sides)
    return answered, replace(_compare_measure(bare, (a, b), ids, clusters), moved=answered.moved)


def _compare_measure(
    template: Comparison,
    sides: tuple[Mapping[str, Score], Mapping[str, Score]],
    ids: Sequence[str],
    clusters: Mapping[str, Hashable] | None,
) -> Comparison:
    pairs = pair_values(*sides)
    n = len(pairs)
    row_scores = [[side[key] for side in sides if key in side] for key in ids]
    # A row that lacks gold on one side but is scored on the other has gold after all.
    lacking = sum(bool(scores) and all(s.no_gold for s in scores) for scores in row_scores)
    excused = sum(map(_is_excused, row_scores))
    counts = [
        (score.counted, sides[1][key].counted) for key, score in sides[0].items() if key in sides[1]
    ]
    bare = replace(
        template,
        counted=all_counted(counts),
        # No verdict where the two counted different gold.
        incomparable=template.incomparable or explain_counted_apart(counts),
        n=n,
        coverage=n / (len(ids) - lacking - excused) if n else 0.0,
        only_a=sum(score.value is not None for score in sides[0].values()) - n,
        only_b=sum(score.value is not None for score in sides[1].values()) - n,
        moved=find_moved_rows(*sides),
        no_gold=lacking,
        unanswerable=excused,
    )
    if not n:
        return bare
    # rounded as for ranking: a difference in the last digits is a tie
    values = np.array([(round(y - x, 6), x, y) for _, x, y in pairs], dtype=np.float64)
    differences: Values = values[:, 0]
    upward = template.scale is None or template.scale.higher_is_better
    groups = None if clusters is None else number_clusters([clusters[key] for key, _, _ in pairs])
    width = None if template.scale is None else template.scale.width
    ends = difference_interval(differences, template.seed, reach=width, clusters=groups)
    low, high = ends or (None, None)
    bare = _add_lost_rows(bare, sides, math.fsum(differences))
    steps: Values = differences
    if groups is not None:
        steps = np.bincount(groups, weights=differences).astype(np.float64)
    mean = math.fsum(differences) / n
    ahead = differences if upward else -differences
    return replace(
        bare,
        mean_a=math.fsum(values[:, 1]) / n,
        mean_b=math.fsum(values[:, 2]) / n,
        difference=mean,
        low=low,
        high=high,
        p=permutation_p(np.round(steps, 9), template.seed),
        wins=int(np.count_nonzero(ahead > 0)),
        ties=int(np.count_nonzero(ahead == 0)),
        losses=int(np.count_nonzero(ahead < 0)),
        error=standard_error(differences, groups),
        clusters=None if groups is None else len(steps),
        p_rare=_p_with_rare_rows(mean, steps, width),
    )


def _p_with_rare_rows(difference: float, steps: Values, width: float | None) -> float | None:
    """P-value of a difference if rare rows at the other end of the scale cancelled it.

    They would be a share of ``d / (w + d)`` of all rows, none of them in the sample.
    """
    against = np.count_nonzero(steps < 0 if difference > 0 else steps > 0)
    if width is None or against >= FEW_SEEN:
        return None
    return min(1.0, 2 * math.exp(-len(steps) * math.log1p(abs(difference) / width)))


def _is_excused(scores: Sequence[Score]) -> bool:
    """True for a row that is not compared, because one of the two rightly abstained."""
    return any(s.unanswerable for s in scores) and not any(s.lost for s in scores)


def _add_lost_rows(
    comparison: Comparison, sides: tuple[Mapping[str, Score], Mapping[str, Score]], total: float
) -> Comparison:
    """Add the rows that lack a score, and the possible range of the difference with them.

    A missing value may be anything on the scale; the known value of its row is kept.
    """
    low, high = (None, None) if comparison.scale is None else comparison.scale.ends
    lost, ends = 0, [total, total]
    for key, score in sides[0].items():
        score_b = sides[1].get(key)
        if score_b is None or (score.no_gold and score_b.no_gold) or _is_excused((score, score_b)):
            continue
        x, y = score.value, score_b.value
        if x is None or y is None:
            lost += 1
            if low is not None and high is not None:
                ends[0] += (low if y is None else y) - (high if x is None else x)
                ends[1] += (high if y is None else y) - (low if x is None else x)
    if lost and (low is None or high is None):
        return replace(comparison, lost=lost)
    n = comparison.n + lost
    return replace(comparison, lost=lost, lowest=ends[0] / n, highest=ends[1] / n)


def _correct_for_tests(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with what depends on their number: Holm, smallest difference, verdict."""
    tested = [comparison for comparison in comparisons if comparison.p is not None]
    corrected = iter(holm([comparison.p_verdict or 0.0 for comparison in tested]))
    return [
        comparison
        if comparison.p is None
        else _add_verdict(comparison, next(corrected), len(tested))
        for comparison in comparisons
    ]


def _add_verdict(comparison: Comparison, p_holm: float, tests: int) -> Comparison:
    difference, low, high = comparison.difference or 0.0, comparison.low, comparison.high
    verdict: Verdict = "no change proven"
    is_shown = p_holm <= LEVEL and low is not None and high is not None and not low <= 0 <= high
    doubt = _doubt_of(comparison) if is_shown else ""
    if is_shown and not doubt and comparison.scale is not None:
        verdict = "better" if (difference > 0) == comparison.scale.higher_is_better else "worse"
    smallest = comparison.provable(comparison.units, tests)
    return replace(comparison, p_holm=p_holm, smallest=smallest, verdict=verdict, doubt=doubt)


def _doubt_of(comparison: Comparison) -> str:
    """The reason why a difference shown by the test gives no verdict; empty if it gives one."""
    if comparison.incomparable:
        return comparison.incomparable
    if comparison.scale is None:
        return "it is unknown whether higher is better: the measure has no known scale"
    if not comparison.lost:
        return ""
    rows = f"{count_noun(comparison.lost, 'row lacks', 'rows lack')} a score in one of the two runs"
    if comparison.lowest is None or comparison.highest is None:
        return f"{rows}, and on an unbounded scale they could reverse it"
    ahead = comparison.lowest if (comparison.difference or 0.0) > 0 else -comparison.highest
    if ahead > 0:
        return ""
    ends = f"{comparison.lowest:+.4f} and {comparison.highest:+.4f}"
    return f"{rows}, and they could reverse it: with them the difference lies between {ends}"
