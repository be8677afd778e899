"""Distances of questions and answers under other settings, against those of given pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from ..core import (
    ConfigError,
    MeasureError,
    Row,
    Score,
    StoreError,
    TestsetError,
    count_noun,
    make_plain,
)
from ..flow import Forecast, Run, RunRow, Runs
from ..measure import MeasureSetup, Summary, aggregate, compare_rows, parse_measure, qa_distances
from ..models import NO_MODEL
from ..project import Project, ProjectFolder, build_like, load_settings, refuse_forget
from ..testsets import CLOSED_BOOK, Testset, project_testset
from ._evaluate import evaluate_testset, forecast_testset
from ._given import gold_texts, make_given_row
from ._results import EvaluationOptions, RowResult, RunOptions, read_plain
from ._stored_runs import BASELINE, KnownRun, distance_row, find_known_run, find_run

_MEASURE = "TokenF1"
_DISTANCE = "QADistance"
_YARDSTICK = "judge."
"""Settings that measure the experiment but are not part of it."""
_INDEXED = ("chunk.", "embed.", "keyword.", "store.")
_LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class BaselineOptions(RunOptions):
    """Options of a comparison with a baseline.

    Attributes:
        settings: What the experiment changes, as ``key=value``: chunker, embedder, model, prompt.
        context: Also answer every question with its own chunk and with none.
        margin: Largest mean change that counts as equal, as a share of the way from the baseline's
            own answers to shuffled ones.
    """

    settings: tuple[str, ...] = ()
    context: bool = False
    margin: float = 0.1


@dataclass(frozen=True, slots=True)
class KeptPair:
    """A question with its answer: texts, vectors and distance.

    Attributes:
        set: Set it belongs to.
        id: Row id.
        passages: Texts that the answer was written from.
        question_vector: Unit vector of the question, E(Q); likewise ``answer_vector``, E(A).
        distance: 1 - cosine of the two, 0 to 2.
        sources: Ids of the documents whose text it holds.
        shuffled: Distance of the question and the answer of another pair; likewise ``echoed``, of
            the question and itself, and ``random_chunk``. None where it was not computed.
        rank: Rank of its own answer among the answers of its set, from 1.
    """

    set: str
    id: str
    question: str
    answer: str
    passages: tuple[str, ...]
    question_vector: tuple[float, ...]
    answer_vector: tuple[float, ...]
    distance: float
    sources: tuple[str, ...] = field(default=(), repr=False)
    shuffled: float | None = None
    echoed: float | None = None
    random_chunk: float | None = None
    rank: int | None = None

    def body(self) -> dict[str, Any]:
        """The pair as JSON."""
        return {name: value for name, value in make_plain(self).items() if name != "sources"}


@dataclass(frozen=True, slots=True)
class DistanceSet:
    """The distances of one set of answers, with the null baselines.

    Attributes:
        name: ``baseline``, ``experiment``, ``with_chunk`` or ``without_chunk``.
        asked: Questions; those without an answer are ``abstained``, ``failed`` or lack one.
        abstained: Questions that were declined.
        pairs: Every pair with its vectors; none where fewer than two answers.
        run: Run that holds the answers, empty for the baseline.
    """

    name: str
    asked: int
    abstained: int = 0
    pairs: tuple[KeptPair, ...] = field(default=(), repr=False)
    run: str = ""

    @property
    def distances(self) -> dict[str, float]:
        """Row id -> distance."""
        return {pair.id: pair.distance for pair in self.pairs}

    def values(self, name: str) -> tuple[float, ...]:
        """The known values of a field of the pairs, such as ``shuffled`` or ``rank``."""
        values = (getattr(pair, name) for pair in self.pairs)
        return tuple(value for value in values if value is not None)

    @property
    def mean(self) -> float | None:
        """Mean distance, None without pairs."""
        return sum(self.distances.values()) / len(self.pairs) if self.pairs else None

    @property
    def summary(self) -> Summary:
        """Mean distance with its interval."""
        scores = [Score(_DISTANCE, "scored", pair.distance) for pair in self.pairs]
        return replace(aggregate(scores), scale=parse_measure(_DISTANCE).known_scale)

    def results(self) -> tuple[RowResult, ...]:
        """Its pairs as rows scored by ``QADistance``."""
        return tuple(distance_row(pair.body()) for pair in self.pairs)


@dataclass(frozen=True, slots=True)
class DistanceShift:
    """The difference between two sets of distances, pair by pair.

    Attributes:
        outcome: ``about equal`` if the interval lies within the margin; ``smaller`` or ``larger``
            if the paired test shows it at 5 %.
        n: Pairs that both sets have an answer to.
        difference: Mean of the second distance minus the first, None without pairs.
        low: Lower end of its 95 % interval, ``high`` its upper end; None below two pairs.
        p: Two-sided p-value of the paired permutation test.
        margin: Largest difference that counts as equal, in units of the distance.
        rare: The test shows a difference that pairs of a kind too rare to be among these could
            reverse: true of most small sets.
        reason: Why it is undecided although there are pairs enough; empty else.
    """

    outcome: Literal["smaller", "about equal", "larger", "undecided"]
    n: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    margin: float
    rare: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """The comparison of answers with a baseline of pairs.

    Attributes:
        run: Run that holds every pair with its vectors.
        testset: Testset that holds the pairs.
        embedder: Embedding model of all vectors.
        changed: What the experiment changes of the project, as ``key=value``.
        sets: The baseline first.
        shift: The experiment against the baseline.
        context: Answers with the chunk against those without it; None if it was not requested.
        notes: Remarks on the numbers.
        name: Name of the experiment's run, empty if it has none.
        started: When it was run, seconds since 1970.
    """

    run: str
    testset: str
    embedder: str
    changed: tuple[str, ...]
    sets: tuple[DistanceSet, ...]
    shift: DistanceShift
    context: DistanceShift | None = None
    notes: tuple[str, ...] = ()
    name: str = ""
    started: float = 0.0

    @property
    def label(self) -> str:
        """The experiment's label: its name, or else what it changes."""
        return self.name or ", ".join(self.changed) or "the project as it is"

    @property
    def relative_shift(self) -> float | None:
        """Distance of S_e from S_b, as a share of that to shuffled answers: without a unit."""
        shuffled = self.sets[0].values("shuffled")
        own, answered = self.sets[0].mean, self.sets[1].mean
        if not shuffled or own is None or answered is None:
            return None
        room = fmean(shuffled) - own
        return (answered - own) / room if room > 0 else None

    @property
    def pairs(self) -> tuple[KeptPair, ...]:
        """Every pair of every set."""
        return tuple(pair for group in self.sets for pair in group.pairs)


@refuse_forget("baseline")
def run_baseline(
    project: Project, testset: str | Testset, options: BaselineOptions | None = None
) -> BaselineResult:
    """Compare the distances d(E'(Q), E'(A')) of a project with d(E'(Q), E'(A)) of given pairs.

    The pairs are rows with a question and a reference answer; they are embedded by the embedding
    model of the experiment, so both sets have the same one. Every pair is kept in a run
    with its vectors.

    Raises:
        ConfigError: No embedding model is set, or answers with and without the chunk are requested
            and no chat model is set.
        TestsetError: Fewer than two rows are pairs.
        StoppedError: The budget or a key stopped it; finished answers are stored.
    """
    options = options or BaselineOptions()
    variant, embedder = _experiment_project(project, options)
    rows, notes = _pair_rows(project, testset)
    build_like(variant, project)
    given = [make_given_row(row) for row in rows.rows]
    sets = [_distance_set(variant, BASELINE, given, embedder, options)]
    for name, questions in _question_sets(rows, options):
        evaluation, summary = evaluate_testset(
            variant, questions, _MEASURE, _evaluating_options(options, name)
        )
        if summary.reason is not None:  # sets that are cut off cannot be compared
            raise summary.reason
        stored = [result.row for result in evaluation.results if result.row is not None]
        answered = [row for row in stored if not row.metadata.get("abstained")]
        distances = _distance_set(variant, name, answered, embedder, options)
        asked, declined = len(evaluation.results), len(stored) - len(answered)
        sets.append(replace(distances, asked=asked, abstained=declined, run=summary.run))
    every, experiment = sets[0], sets[1].distances
    if 2 <= len(experiment) < len(every.pairs):  # null baselines of both over the same pairs
        shared = [row for row in given if row.id in experiment]
        compared = _distance_set(variant, BASELINE, shared, embedder, options)
        sets[0] = replace(compared, asked=every.asked)
    manifest = {
        "testset": rows.name,
        "rows": rows.fingerprint,
        "embedder": embedder,
        "settings": list(options.settings),
        "changed": [text for text in options.settings if not text.startswith(_YARDSTICK)],
        "notes": [*notes, *_distance_notes(sets)],
        "name": options.name,
        "asked": {each.name: [each.asked, each.abstained] for each in sets},
        "runs": {each.name: each.run for each in sets if each.run},
        "margin": options.margin,
        "seed": options.seed,
    }
    run = variant.runs.start(BASELINE, manifest)
    in_both = {pair.id: pair for pair in sets[0].pairs}
    unknown: dict[str, Any] = {"shuffled": None, "echoed": None, "random_chunk": None, "rank": None}
    pairs = [in_both.get(pair.id) or replace(pair, **unknown) for pair in every.pairs]
    pairs += [pair for each in sets[1:] for pair in each.pairs]
    for position, pair in enumerate(pairs):
        row = RunRow(position, f"{pair.set}/{pair.id}", "done", pair.body())
        variant.runs.append(run, row, sources=pair.sources)
    variant.runs.finish(run, "complete")
    return load_baseline(variant.runs, run)


def forecast_baseline(
    project: Project, testset: str | Testset, options: BaselineOptions | None = None
) -> tuple[Forecast, tuple[str, ...]]:
    """Forecast the calls and cost of :func:`run_baseline`, and name what is not counted.

    The project's own index stands in for one of the experiment that is not built yet.
    """
    options = options or BaselineOptions()
    variant, _ = _experiment_project(project, options)
    rows, _ = _pair_rows(project, testset)
    notes = ["the vectors of questions and answers are not counted"]
    known = variant.store.holds(variant.index_spec)
    if not known:
        query_time = tuple(text for text in options.settings if not text.startswith(_INDEXED))
        variant, _ = _experiment_project(project, replace(options, settings=query_time))
        notes.append("the experiment's index is not built: its vectors are not counted either")
    total: Forecast | None = None
    for name, questions in _question_sets(rows, options):
        part = forecast_testset(variant, questions, _MEASURE, _evaluating_options(options, name))
        total = part if total is None else total + part
    assert total is not None
    return total, tuple(notes)


def _experiment_project(project: Project, options: BaselineOptions) -> tuple[Project, str]:
    """The project under the experiment's settings, and its embedding model."""
    overrides = (*project.session.overrides, *options.settings)
    settings = load_settings(project.folder.file, overrides)
    embedder = settings.judge.embedder or settings.embed.model
    if not embedder:
        raise ConfigError(
            "distances need an embedding model, and none is set",
            where=str(project.folder.file),
            hint="set embed.model (or judge.embedder, for the distances alone), for example "
            "--set embed.model=st:FOLDER",
        )
    if options.context and settings.answer.model == NO_MODEL:
        raise ConfigError(
            "answers without the chunk need a chat model, and none is set",
            where=str(project.folder.file),
            hint="set answer.model, or leave --context out",
        )
    return project.variant(settings), embedder


def _pair_rows(project: Project, testset: str | Testset) -> tuple[Testset, tuple[str, ...]]:
    if isinstance(testset, str):
        testset = project_testset(project.folder, testset, purpose=BASELINE)
    rows = tuple(row for row in testset.rows if row.user_input.strip() and row.reference.strip())
    if len(rows) < 2:
        raise TestsetError(
            f"{count_noun(len(rows), 'row has', 'rows have')} a question and a reference "
            "answer; a baseline needs two",
            where=testset.name,
            hint="make pairs with `ragwright synth`, or write them: user_input, reference, "
            "reference_contexts",
        )
    rows = _add_sources(project, rows)
    left_out = len(testset.rows) - len(rows)
    notes = (
        (f"left out: {count_noun(left_out, 'row')} without a reference answer",) if left_out else ()
    )
    return replace(testset, rows=rows), (*testset.notes, *notes)


def _add_sources(project: Project, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Add the documents that hold each row's chunk, so that these can be forgotten."""
    without_sources = [row for row in rows if not (row.reference_spans or row.reference_ids)]
    holders: dict[str, dict[str, int]] = {
        " ".join(text.split()): {} for row in without_sources for text in row.reference_contexts
    }
    for document in project.documents() if holders else ():
        flat = " ".join(document.text.split())
        for text, ids in holders.items():
            if text in flat:
                ids[document.id] = 1
    ids_by_row = {
        row.id: {k: 1 for text in row.reference_contexts for k in holders[" ".join(text.split())]}
        for row in without_sources
    }
    return tuple(
        replace(row, reference_ids=ids_by_row[row.id]) if ids_by_row.get(row.id) else row
        for row in rows
    )


def _question_sets(rows: Testset, options: BaselineOptions) -> list[tuple[str, Testset]]:
    """Return the sets to answer: by the project, and from the chunk and without it."""
    sets = [("experiment", rows)]
    if options.context:
        known = tuple(row for row in rows.rows if gold_texts(row))
        if not known:
            raise TestsetError(
                "no pair names its chunk, so none can be answered from it",
                where=rows.name,
                hint="add reference_contexts to the rows, or leave --context out",
            )
        for name, suite in (("with_chunk", "chunk"), ("without_chunk", CLOSED_BOOK)):
            with_passages = tuple(
                replace(
                    row,
                    retrieved_contexts=() if suite == CLOSED_BOOK else gold_texts(row),
                    metadata={**row.metadata, "suite": suite},
                )
                for row in known
            )
            sets.append((name, replace(rows, rows=with_passages, notes=())))
    return sets


def _evaluating_options(options: BaselineOptions, name: str) -> EvaluationOptions:
    run_name = options.name if name == "experiment" else ""
    return EvaluationOptions(resume=options.resume, seed=options.seed, name=run_name)


def _distance_set(
    project: Project, name: str, rows: Sequence[Row], embedder: str, options: BaselineOptions
) -> DistanceSet:
    """Pairs of the rows that have a response, with their null baselines."""
    if sum(bool(row.response_text) for row in rows) < 2:
        return DistanceSet(name, len(rows))
    found = project.runner.run(
        qa_distances(rows, MeasureSetup(embedder=embedder), options.seed, most=None)
    )
    by_id = {row.id: row for row in rows}
    pairs = []
    for at, key in enumerate(found.row_ids):
        row = by_id[key]
        spans = (span.document_id for span in row.reference_spans)
        pairs.append(
            KeptPair(
                name,
                key,
                row.user_input,
                row.response_text,
                row.retrieved_contexts,
                tuple(found.questions[at].round(6).tolist()),
                tuple(found.answers[at].round(6).tolist()),
                found.distances[at],
                tuple(dict.fromkeys((*spans, *row.reference_ids, *row.retrieved_context_ids))),
                found.shuffled[at],
                found.echoed[at],
                found.chunk[at] if found.chunk else None,
                found.ranks[at],
            )
        )
    return DistanceSet(name, len(rows), pairs=tuple(pairs))


def _distance_notes(sets: Sequence[DistanceSet]) -> list[str]:
    """Return reasons not to read a set's distances as quality."""
    notes = []
    own = sets[0].mean
    for group in sets:
        if len({pair.answer for pair in group.pairs}) == 1:
            notes.append(f"{group.name}: every answer is the same text, so its ranks say nothing")
        echoed = group.values("echoed")
        mean = group.mean
        if echoed and mean is not None and own is not None and mean - fmean(echoed) < own - mean:
            notes.append(
                f"{group.name}: the distances are closer to those of the echoed questions than to "
                "those of the pairs: the answers repeat the questions' words"
            )
        if group.name == BASELINE:
            if len(group.pairs) < group.asked:
                notes.append(
                    f"S_b and S_e are both over the {len(group.pairs)} of {group.asked} pairs "
                    "that the experiment answered"
                )
            continue
        lost = group.asked - group.abstained - len(group.pairs)
        if group.abstained or lost:
            failed = f" and {lost} without an answer" if lost else ""
            notes.append(
                f"{group.name}: {group.abstained} of {group.asked} questions were "
                f"declined{failed}; they have no distance and are not compared"
            )
    return notes


def load_baseline(runs: Runs, name: str) -> BaselineResult:
    """A baseline that was run before, from its stored pairs alone.

    Raises:
        StoreError: No such run exists, it is not a baseline, or its pairs were forgotten.
    """
    run = runs.get(name if runs.holds(name) else find_run(runs, name))
    if run.kind != BASELINE:
        raise StoreError(f"the run {run.id} is not a baseline", hint="it is of `ragwright eval`")
    # A set without answers stays: the next one must not stand in for it.
    by_set: dict[str, list[KeptPair]] = {each: [] for each in run.manifest["asked"]}
    for row in runs.rows(run.id):
        pair = read_plain(KeptPair, row.body)
        by_set[pair.set].append(pair)
    if not by_set[BASELINE]:
        raise StoreError(
            f"the pairs of the baseline {run.id} were forgotten",
            hint="run `ragwright baseline` again",
        )
    # Of a pair that the experiment did not answer, the null baselines are not known.
    compared = [pair for pair in by_set[BASELINE] if pair.shuffled is not None]
    by_set[BASELINE] = compared or by_set[BASELINE]
    manifest = run.manifest
    sets = []
    for name, pairs in by_set.items():
        asked, abstained = manifest["asked"][name]
        run_of_set = manifest["runs"].get(name, "")
        sets.append(DistanceSet(name, asked, abstained, tuple(pairs), run_of_set))
    shuffled, margin, seed = sets[0].values("shuffled"), 0.0, manifest["seed"]
    if shuffled and sets[0].mean is not None:
        margin = manifest["margin"] * (fmean(shuffled) - sets[0].mean)
    own = {group.name: group.distances for group in sets}
    shift = distance_shift(sets[0].distances, sets[1].distances, margin, seed=seed)
    context = None
    if {"with_chunk", "without_chunk"} <= own.keys():
        context = distance_shift(own["without_chunk"], own["with_chunk"], margin, seed=seed)
    return BaselineResult(
        run.id,
        manifest["testset"],
        manifest["embedder"],
        tuple(manifest["changed"]),
        tuple(sets),
        shift,
        context,
        tuple(manifest["notes"]),
        manifest["name"],
        run.started,
    )


def load_baselines(runs: Runs, most: int | None = None) -> tuple[BaselineResult, ...]:
    """The newest baselines of a project, or all; those that cannot be compared are left out."""
    results: list[BaselineResult] = []
    for run in reversed(baseline_runs(runs)):
        if most is not None and len(results) == most:
            break
        try:
            results.append(load_baseline(runs, run.id))
        except StoreError:  # all its pairs are forgotten
            continue
    return tuple(results)


def list_baselines(folder: str | Path) -> tuple[KnownRun, ...]:
    """Return every stored baseline of a project folder as an entry of a list, newest first."""
    with Project.open(ProjectFolder(Path(folder)).root) as project:
        return tuple(map(find_known_run, reversed(baseline_runs(project.runs))))


def open_baselines(folder: str | Path, names: Sequence[str]) -> tuple[BaselineResult, ...]:
    """Baselines of a project folder by their names; raises as :func:`load_baseline`."""
    with Project.open(ProjectFolder(Path(folder)).root) as project:
        return tuple(load_baseline(project.runs, name) for name in names)


def baseline_runs(runs: Runs) -> list[Run]:
    """Runs of baselines that are complete, oldest first."""
    return [run for run in runs.list(BASELINE) if run.state == "complete"]


def distance_shift(
    before: Mapping[str, float], after: Mapping[str, float], margin: float, *, seed: int = 0
) -> DistanceShift:
    """Compare two sets of distances over the pairs that both hold.

    Args:
        before: Row id -> distance of the baseline.
        after: Likewise of the experiment.
        margin: Mean differences up to this count as equal; at 0 or less it is undecided.
        seed: Seed of the interval and of the test.
    """
    shared = [name for name in before if name in after]
    differences = [round(after[name] - before[name], 6) for name in shared]
    summary = aggregate([Score("difference", "scored", value) for value in differences], seed)
    low, high = summary.low, summary.high
    if len(differences) > 1 and len(set(differences)) == 1:
        low = high = differences[0]
    sides = (
        {name: (Score(_DISTANCE, "scored", value),) for name, value in side.items()}
        for side in (before, after)
    )
    try:
        compared = compare_rows(*sides, seed=seed).measures[0]
    except MeasureError:
        return DistanceShift("undecided", 0, None, None, None, None, margin)
    outcome: Literal["smaller", "about equal", "larger", "undecided"] = "undecided"
    reason = ""
    if margin <= 0:
        reason = (
            "the baseline's own answers are no nearer to their questions than shuffled answers, so "
            "these distances say nothing: use another embedding model"
        )
    elif low is not None and high is not None and -margin <= low and high <= margin:
        outcome = "about equal"
    elif summary.mean and compared.p is not None and compared.p <= _LEVEL:
        outcome = "smaller" if summary.mean < 0 else "larger"
    rare = outcome in ("smaller", "larger") and compared.verdict == "no change proven"
    return DistanceShift(
        outcome,
        len(differences),
        summary.mean,
        low,
        high,
        compared.p,
        max(margin, 0.0),
        rare,
        reason,
    )
