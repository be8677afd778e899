"""The best generator for each persona, measured in a stored, resumable run.

The same questions are answered for every persona by every generator; all pairs are compared row by
row, and a generator is called the best only if every other one is proven worse.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations, product

from ..answer import AskPlan, ask
from ..core import ConfigError, Persona, Row, Score, TestsetError, count_noun, make_plain
from ..flow import Flow, Forecast, Job, RunSummary
from ..measure import (
    Comparison,
    Measure,
    MeasureScale,
    MeasureSetup,
    Summary,
    aggregate,
    compare_rows,
    read_mark,
    score_row,
)
from ..project import Project, refuse_forget
from ..retrieve import Target
from ..testsets import Testset, questions_of
from ._clusters import clusters_of_results
from ._diagnosis import rename_comparison, turn_scale_upward, upward_score
from ._evaluate import answering_settings, judging, plan_evaluation
from ._oracles import facts_kept, facts_of
from ._results import AnswerRecord, EvaluationOptions, RowResult, RunOptions, read_plain
from ._rows import add_answer, plan_after
from ._stored_runs import run_named

FACTS = "FactsKept"
"""Share of the gold answer's content words and numbers in an answer."""


@dataclass(frozen=True, slots=True)
class GridQuestion:
    """One question for one persona by one generator.

    Attributes:
        row: The row as asked and scored.
        question: Key shared with the same question for other personas.
        generator: Chat model; empty for the configured one.
        gold: The gold answer whose facts are counted: the one with the most, of all personas.
    """

    row: Row
    question: str
    generator: str = ""
    gold: str = ""

    @property
    def key(self) -> str:
        """Its unique key."""
        return f"{self.question} | {self.row.persona_name} | {self.generator}"


@dataclass(frozen=True, slots=True)
class GridRow:
    """Result of a reading: the answer, its scores, and the shares of facts kept."""

    question: str
    persona: str
    generator: str
    result: RowResult
    facts: tuple[Score, ...] = ()


@dataclass(frozen=True, slots=True)
class GridComparison:
    """Two generators for one persona, or two personas by one generator; differences are b - a.

    As improvements: positive is better for every measure.
    """

    within: str
    a: str
    b: str
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class PersonaModelGrid:
    """Comparison of generators and personas, every pair of them.

    Attributes:
        personas: In order; likewise ``generators`` and ``measures``.
        cells: (persona, generator, measure) -> mean with its interval.
        pairs: Every two generators for each persona, by the first measure; as one family of tests.
        best: Persona -> the generator proven better than all others.
        facts: Every two personas by each generator: facts kept, on the same questions.
        kept: (persona, generator, name of the share) -> mean share of facts kept.
        silent: Generators that gave no answer; if there are any, none is called the best.
    """

    personas: tuple[str, ...]
    generators: tuple[str, ...]
    measures: tuple[str, ...]
    cells: Mapping[tuple[str, str, str], Summary]
    pairs: tuple[GridComparison, ...]
    best: Mapping[str, str]
    facts: tuple[GridComparison, ...]
    kept: Mapping[tuple[str, str, str], Summary]
    notes: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


def readings_of(
    rows: Iterable[Row], personas: Sequence[str] = (), generators: Sequence[str] = ()
) -> list[GridQuestion]:
    """Return every question for every persona by every generator, in the order of the rows.

    A question that has a row for a persona is scored against that row's gold; for other personas
    its first row is used. Without ``personas`` the rows' own are used. Rows with the same words but
    other gold for the same persona are other questions.
    """
    return [
        GridQuestion(row, question.first.id, model, gold)
        for question in questions_of(rows)[0]
        for gold in (
            max((r.reference for r in question.own.values()), key=lambda text: len(facts_of(text))),
        )
        for persona in personas or question.own
        for row in (question.row_for(persona),)
        if row is not None
        for model in generators or ("",)
    ]


def _read_row(
    reading: GridQuestion,
    persona: Persona,
    pipeline: tuple[Target, AskPlan],
    measures: Sequence[Measure],
    setup: MeasureSetup,
) -> Flow[GridRow]:
    """Ask, score, and count the facts kept; raises errors of asking."""
    target, plan = pipeline
    reader = replace(persona, model=reading.generator) if reading.generator else persona
    [answer] = yield from ask(
        reading.row.user_input, [reader], target, plan_after(plan, reading.row)
    )
    row = add_answer(reading.row, answer)
    scores = yield from score_row(row, measures, setup)
    response = "" if answer.abstained else row.response or ""
    share = facts_kept(reading.gold, response, setup.language)
    facts = (
        Score(FACTS, "not_applicable", reason="the row has no gold answer")
        if share is None
        else Score(FACTS, "scored", round(share, 6))
    )
    result = RowResult(
        reading.key,
        row.retrieved_context_ids,
        scores,
        row,
        AnswerRecord(answer.prompt, answer.usage, notes=answer.notes),
    )
    return GridRow(reading.question, reading.row.persona_name, reading.generator, result, (facts,))


def grid_of(
    rows: Sequence[GridRow], measures: Sequence[Measure], *, seed: int = 0
) -> PersonaModelGrid:
    """Summarise readings; an abstention is left out of means, in comparisons the worst value.

    Questions that share gold documents are not independent observations.
    """
    clusters = clusters_of_results([replace(r.result, row_id=r.question) for r in rows]) or None
    by_cell: dict[tuple[str, str], dict[str, GridRow]] = {}
    for row in rows:
        by_cell.setdefault((row.persona, row.generator), {})[row.question] = row
    personas = tuple(dict.fromkeys(row.persona for row in rows))
    generators = tuple(dict.fromkeys(row.generator for row in rows))
    cells: dict[tuple[str, str, str], Summary] = {}
    means = dict(cells)
    for persona, generator in product(personas, generators):
        own = by_cell.setdefault((persona, generator), {})
        groups = None if clusters is None else [clusters[question] for question in own]
        for index, measure in enumerate(measures):
            scores = [row.result.scores[index] for row in own.values()]
            cells[persona, generator, str(measure)] = aggregate(scores, seed, clusters=groups)
        for index, score in enumerate(next((row.facts for row in own.values()), ())):
            shares = [row.facts[index] for row in own.values()]
            means[persona, generator, score.measure] = aggregate(shares, seed, clusters=groups)
    first = measures[0]
    upward = {
        cell: {q: upward_score(row.result.scores[0], first, str(first)) for q, row in own.items()}
        for cell, own in by_cell.items()
    }
    kept = {
        (generator, persona): {q: row.facts[-1] for q, row in own.items() if row.facts}
        for (persona, generator), own in by_cell.items()
    }
    pairs = _compare_pairs(upward, turn_scale_upward(first), (seed, clusters))
    facts = _compare_pairs(kept, MeasureScale(0, 1), (seed, clusters))
    answers = [row.result.row for row in rows if row.result.row is not None]
    silent = sum(read_mark(answer, "abstained") is True for answer in answers)
    note = (
        f"{count_noun(silent, 'answer abstains', 'answers abstain')}: left out of means, the worst "
        "value in comparisons, no fact kept"
    )
    return PersonaModelGrid(
        personas,
        generators,
        tuple(map(str, measures)),
        cells,
        pairs,
        _best_by_persona(personas, generators, pairs),
        facts,
        means,
        (note,) if silent else (),
    )


_ScoresByQuestion = Mapping[str, Score]


def _compare_pairs(
    cells: Mapping[tuple[str, str], _ScoresByQuestion],
    scale: MeasureScale | None,
    seed_and_clusters: tuple[int, Mapping[str, Hashable] | None],
) -> tuple[GridComparison, ...]:
    """Compare every two columns within each line of a grid, as one family of tests."""
    lines, columns = (tuple(dict.fromkeys(key[at] for key in cells)) for at in (0, 1))
    seed, clusters = seed_and_clusters
    tables: tuple[dict[str, list[Score]], dict[str, list[Score]]] = ({}, {})
    pairs = []
    for index, (within, (a, b)) in enumerate(product(lines, combinations(columns, 2))):
        valued = [
            {q: s for q, s in cells[within, name].items() if s.value is not None} for name in (a, b)
        ]
        shared = sorted(valued[0].keys() & valued[1].keys())
        if shared:
            pairs.append((within, a, b, str(index), next(iter(valued[0].values())).measure))
        for question in shared:
            for table, side in zip(tables, valued, strict=True):
                score = replace(side[question], measure=str(index))
                table.setdefault(question, []).append(score)
    if not pairs:
        return ()
    scales = {key: scale for *_, key, _ in pairs}
    comparisons = compare_rows(*tables, seed=seed, clusters=clusters, scales=scales)
    return tuple(
        GridComparison(within, a, b, rename_comparison(comparisons[key], measure))
        for within, a, b, key, measure in pairs
    )


def _best_by_persona(
    personas: Sequence[str], generators: Sequence[str], pairs: Sequence[GridComparison]
) -> dict[str, str]:
    verdicts: dict[tuple[str, str, str], str] = {
        (p.within, p.a, p.b): p.comparison.verdict for p in pairs
    }
    verdicts |= {
        (within, b, a): {"better": "worse", "worse": "better"}.get(verdict, verdict)
        for (within, a, b), verdict in verdicts.items()
    }
    return {
        persona: winner
        for persona in personas
        for winner in generators
        if len(generators) > 1
        and all(
            verdicts.get((persona, other, winner)) == "better"
            for other in generators
            if other != winner
        )
    }


@dataclass(frozen=True, slots=True)
class GridOptions(RunOptions):
    """Options of the comparison.

    Attributes:
        personas: Personas for which every question is answered; if empty, those of the rows.
        generators: Chat models that answer; if empty, the configured one.
    """

    personas: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()


@refuse_forget("diagnose --readers")
def compare_generators(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: GridOptions
) -> tuple[PersonaModelGrid, RunSummary]:
    """Answer every question for every persona by every generator, and compare them in pairs.

    Raises:
        ConfigError: There is nothing to compare, or a model cannot be used.
        PromptError: The persona does not exist.
        TestsetError: The testset cannot be measured.
    """
    job, wanted_measures, notes = _grid_job(project, testset, measures, options)
    summary = run_named(project.runner, project.runs, job, options)
    stored = list(project.runs.rows(summary.run))
    rows = [read_plain(GridRow, row.body) for row in stored if row.state == "done"]
    if not rows:
        reason = next((str(row.body.get("what", row.state)) for row in stored), "no rows")
        raise TestsetError(
            "no question was answered", where=testset.name, hint=f"the first one: {reason}"
        )
    grid = grid_of(rows, wanted_measures, seed=options.seed)
    failed = len(stored) - len(rows)
    lost = (f"{failed} of {len(stored)} answers failed and are left out",) if failed else ()
    silent = tuple(name for name in options.generators if name not in grid.generators)
    best = {} if silent else grid.best
    notes = (*notes, *grid.notes, *lost)
    return replace(grid, best=best, notes=notes, silent=silent), summary


def forecast_generators(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: GridOptions
) -> Forecast:
    """Calls and cost of the comparison."""
    job, *_ = _grid_job(project, testset, measures, options)
    return project.runner.forecast(make for _, make in job.items)


def _grid_job(
    project: Project, testset: Testset, measures: str | Sequence[Measure], options: GridOptions
) -> tuple[Job[GridRow], Sequence[Measure], tuple[str, ...]]:
    base = plan_evaluation(project, testset, measures, EvaluationOptions())
    rows, wanted_measures = base.rows, base.measures
    readings = readings_of(rows.rows, options.personas, options.generators)
    personas = list(dict.fromkeys(reading.row.persona_name for reading in readings))
    if len(personas) < 2 and len(options.generators) < 2:
        raise ConfigError(
            "one persona and one generator: there is nothing to compare",
            where="--personas, --compare-models",
            hint="give two or more personas or generators",
        )
    persona_by_name = {name: project.persona(name) for name in personas}
    plan = project.plan()
    pipeline, setup = (project.target(), plan), judging(project)
    manifest = {
        **base.job.manifest,
        **answering_settings(project, personas, plan),
        "readers": [asdict(persona_by_name[name]) for name in personas],
        "generators": list(options.generators),
    }
    items = [
        (
            reading.key,
            partial(
                _read_row,
                reading,
                persona_by_name[reading.row.persona_name],
                pipeline,
                wanted_measures,
                setup,
            ),
        )
        for reading in readings
    ]
    job = Job(
        kind="readers",
        manifest=manifest,
        items=items,
        encode=make_plain,
        sources=lambda row: list(dict.fromkeys(row.result.ranking)),
    )
    return job, wanted_measures, (*rows.notes, *questions_of(rows.rows)[1])
