"""Ablations of a project's prompt: a study over its parts, effects per part, confirmation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...answer import PromptOptions, compose, presets, prompt_parts
from ...core import ConfigError, PromptError, RagwrightError, Row, Usage, near, value_hash
from ...flow import RunRow, Runs
from ...measure import MeasureScale, parse_measures
from ...models import ExtractiveReranker
from ...project import ABLATE, at_work
from ...testsets import Openings, Testset, project_testset
from ..confirmation import run_trials
from ..evaluations import (
    RowResult,
    check_run_name,
    cluster_of,
    clusters_of_rows,
    measures_of_answers,
    stored_evaluation,
)
from ..studies import (
    Study,
    StudyOptions,
    SweepForecast,
    Sweeping,
    SweepResult,
    Trial,
    TrialResult,
    forecast_sweep,
    run_sweep,
    study_rows,
)
from ._ablation import Ablated, AblationPlan, Contrast, ablation_plan, deletion, prompt_of
from ._ablation_verdict import Ablation
from ._part_effects import (
    EffectOptions,
    PartResult,
    part_body,
    part_effects,
    part_of,
    part_tokens,
    prompt_sizes,
)

if TYPE_CHECKING:
    from ...project import Project

_ALL = ("all", "a8")
_BARE = ("context", "question")
_HALVES = ("instruction_tokens", "assistant_cue")
_MILLION = 1_000_000
_COUNTED = 10_000
_WHOLE = "ablation"
"""Row of a stored ablation for everything that is not about one part."""


@dataclass(frozen=True, slots=True)
class Ablating:
    """Settings of an ablation.

    Attributes:
        presets: Names of presets; ``all`` or ``a8`` for every one.
        leave_one_out: Leave out each part alone; the default.
        parts: Parts that are left out; by default all in the rows' prompts, except context and
            question.
        personas: Personas that every question is asked for; the rows' own if empty.
        margin: Most that a deletion may cost, as a share of a measure's scale.
        clusters: What related rows share: ``document`` (gold documents, the default), ``row`` for
            none, or a column. Rows of one question always belong together.
        limit: Most questions of the tune split, chosen by the seed.
        seed: Seed of the choice, of flips and of resampling.
        confirm: Check the parts that are safe to delete on the confirm split.
        retry_errors: Also run rows again that failed.
        name: Name of the run, empty for its id only.
        on_trial: Gets every variant as it ends.
    """

    presets: tuple[str, ...] = ()
    leave_one_out: bool = False
    parts: tuple[str, ...] = ()
    personas: tuple[str, ...] = ()
    margin: float = 0.05
    clusters: str = ""
    limit: int | None = None
    seed: int = 0
    confirm: bool = False
    retry_errors: bool = False
    name: str = ""
    on_trial: Callable[[TrialResult], None] | None = None


@dataclass(frozen=True, slots=True)
class AblationResult:
    """Result of an ablation.

    Attributes:
        run: Run that stores it.
        ablation: Effects of every part.
        sweep: The sweep behind it.
        again: True if it was confirmed before and is only shown again.
    """

    run: str
    ablation: Ablation
    sweep: SweepResult
    again: bool = False

    @property
    def stopped(self) -> RagwrightError | None:
        """Why not every variant was run."""
        return self.sweep.stopped


def plan_ablation(
    project: Project, testset: str, measures: str, how: Ablating | None = None
) -> AblationPlan:
    """The study of an ablation; every variant of the prompt is rendered once beforehand.

    Raises:
        ConfigError: No chat model writes the answers, or the margin is not a share.
        PromptError: An unknown part, preset or persona, or a fault in a prompt file.
        StudyError: Nothing is left out, or the presets do not fit the project's prompt.
        TestsetError: The testset cannot be read, or its tune split is empty.
    """
    return _Planning(project, testset, measures, how or Ablating()).plan()


def forecast_ablation(
    project: Project, testset: str, measures: str, how: Ablating | None = None
) -> SweepForecast:
    """Calls and cost of an ablation, without calling any model; raises as its plan."""
    asked = how or Ablating()
    found = forecast_sweep(project, plan_ablation(project, testset, measures, asked).study)
    if not asked.confirm:
        return found
    note = "calls of --confirm depend on the outcome and are not included"
    return replace(found, notes=(*found.notes, note))


@at_work("ablate")
def run_ablation(
    project: Project, testset: str, measures: str, how: Ablating | None = None
) -> AblationResult:
    """Run every variant of the prompt on the tune split and measure the effect of each part.

    The variants are trials of a sweep: shared work is done once, and an interrupted ablation
    continues. With ``how.confirm`` the parts that are safe to delete are checked on the confirm
    split, each alone and all at once; it is opened once, which is logged, and stays closed if no
    part is safe.

    Raises what :func:`plan_ablation` and a sweep raise.
    """
    asked = how or Ablating()
    check_run_name(asked.name)
    planning = _Planning(project, testset, measures, asked)
    plan = planning.plan()
    swept = run_sweep(project, plan.study, Sweeping(asked.retry_errors, asked.on_trial))
    work = _Ablation(project, plan, asked, swept)
    found = work.told(planning.rows, planning.never)
    if planning.unmoved:
        names = ", ".join(planning.unmoved)
        note = f"left out, since no part of a prompt can change what is retrieved: {names}"
        found = replace(found, notes=(*found.notes, note))
    if asked.confirm and swept.stopped is None and found.safe:
        ended = work.confirmed(found)
    else:
        ended = AblationResult(work.stored(found), found, swept)
    if asked.name:
        project.runs.name(ended.run, asked.name)
    return ended


class _Planning:
    """The variants to run, checked against the prompt."""

    def __init__(self, project: Project, testset: str, measures: str, how: Ablating) -> None:
        if measures:
            parse_measures(measures)  # a misspelt name is reported before any file is read
        if not 0 < how.margin < 1:
            raise ConfigError(
                f"the margin must be between 0 and 1, not {how.margin:g}",
                where="--margin",
                hint="it is a share of the measure's scale: 0.05 is 5 % of it",
            )
        self._bench = project
        self._how = how
        self.unmoved: tuple[str, ...] = ()
        self._options = StudyOptions(
            testset=testset,
            measures=measures,
            limit=how.limit,
            seed=how.seed,
            personas=how.personas,
        )
        for name in how.personas:
            project.persona(name)
        self.rows = study_rows(project, Study("", self._options, ()))
        self._written()
        self._measure_answers(measures)
        self._present = self._composed(project.settings.prompt)
        known = prompt_parts(project.settings.prompt)
        self.never = tuple(part for part in known if part not in self._present)

    def plan(self) -> AblationPlan:
        """The study; every variant is composed for every persona."""
        how, base = self._how, self._bench.settings.prompt
        self._check(how.parts)
        parts = how.parts or tuple(part for part in self._present if part not in _BARE)
        alone = how.leave_one_out or not how.presets
        what = Ablated(_preset_names(how.presets), parts if alone else ())
        plan = ablation_plan(what, base, self._options)
        for point in plan.study.points:
            self._composed(prompt_of(base, point))
        return plan

    def _measure_answers(self, measures: str) -> None:
        """Leave out measures that no part of a prompt can move: they do not read the answer."""
        kept, others = measures_of_answers(self._bench, self.rows.rows, measures)
        self.unmoved = tuple(map(str, others))
        if not kept:
            raise ConfigError(
                "no part of a prompt can change these measures, which do not read the answer: "
                + ", ".join(self.unmoved),
                where="--measures",
                hint="name measures of answers, such as TokenF1 or Faithfulness",
            )
        if others:
            self._options = replace(self._options, measures=", ".join(map(str, kept)))

    def _written(self) -> None:
        """Refuse personas whose answers are quoted: these have no prompt."""
        model = self._bench.settings.answer.model
        for name in dict.fromkeys(row.persona_name for row in self.rows.rows):
            if (self._bench.persona(name).model or model) == ExtractiveReranker.name:
                who = f" for {name}" if name else ""
                raise ConfigError(
                    f"answers{who} are quoted by the offline model, which has no prompt: an "
                    "ablation needs a chat model",
                    where="answer.model",
                    hint="name one, such as  --set answer.model=ollama:llama3.2",
                )

    def _composed(self, options: PromptOptions) -> tuple[str, ...]:
        """Parts in the prompt of some persona, in their order."""
        asked = {row.persona_name: row.user_input for row in reversed(self.rows.rows)}
        found = {
            part
            for name, question in asked.items()
            for part, _ in compose(question, self._bench.persona(name), (), options).parts
        }
        return tuple(part for part in prompt_parts(options) if part in found)

    def _check(self, named: Sequence[str]) -> None:
        base = self._bench.settings.prompt
        known = (*prompt_parts(base), *_HALVES)
        for name in named:
            if name not in known:
                raise PromptError(
                    f"the prompt has no part {name!r}",
                    where=base.template or "the shipped prompt",
                    hint=near(name, known),
                )
            if name in self.never:
                raise PromptError(
                    f"the part {name!r} is empty in every row's prompt: nothing can be left out",
                    where=base.template or "the shipped prompt",
                    hint="ask for personas whose files fill it: --personas engineer,marketing",
                )


def _preset_names(names: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for name in names:
        found.update(dict.fromkeys(presets() if name in _ALL else [name]))
    return tuple(found)


@dataclass(slots=True)
class _Ablation:
    """An ablation whose variants were run."""

    project: Project
    plan: AblationPlan
    how: Ablating
    swept: SweepResult

    def told(self, rows: Testset, never: tuple[str, ...]) -> Ablation:
        """Results of the tune split."""
        done = [trial for trial in self.swept.trials if trial.state == "done"]
        results = {}
        sizes = {}
        failed: dict[str, str] = {}
        count = lru_cache(_COUNTED)(self.project.tokenizer.count)
        for trial in done:
            found = stored_evaluation(self.project.runs, trial.run).results
            sizes[trial.number] = prompt_sizes(found, count)
            results[trial.number] = _bare(found)
            failed |= _failed(trial, found)
        options = self._options(rows.rows)
        prices = self._prices(rows.rows)
        parts = []
        for one, effects in part_effects(self.plan.contrasts, results, options):
            tokens = part_tokens(one, sizes)
            mean = fmean(tokens.values()) if tokens else None
            parts.append(
                PartResult(one.part, one.design, effects, mean, _cost(tokens, prices), one.trial)
            )
        personas = _personas(rows.rows)
        return Ablation(
            rows.name,
            len(results.get(0, ())),
            tuple(parts),
            self.how.margin,
            tuple(personas) if len(personas) > 1 else (),
            never=never,
            notes=(
                *self._notes(options.scales, len(parts)),
                *_failed_note(failed, sum(map(len, results.values()))),
                *_cluster_note(rows.rows, self.how.clusters),
            ),
        )

    def confirmed(self, found: Ablation) -> AblationResult:
        """The same for the parts that are safe to delete, on held-out rows."""
        project, study = self.project, self.plan.study
        done = project.runs.complete(ABLATE, self._manifest(found, confirm=True))
        if done is not None:
            return AblationResult(done, stored_ablation(project.runs, done), self.swept, again=True)
        chosen = [one for one in self.plan.contrasts if _is_safe(one, found)]
        names = ", ".join(one.part for one in chosen)
        testset = project_testset(
            project.folder,
            study.options.testset,
            "confirm",
            purpose=f"ablation: do without {names}",
        ).asked_for(study.options.personas)
        trials = [Trial(0, {})]
        trials += [Trial(one.trial, study.points[one.trial - 1]) for one in chosen]
        whole = self._together(chosen)
        if whole is not None:
            parts = [one.part for one in chosen if one.design == "leave one out"]
            trials.append(Trial(whole.trial, deletion(project.settings.prompt, parts, study)))
        measures = parse_measures(self.swept.measures)
        fresh = run_trials(project, study, trials, testset, measures)
        results = {trial.number: _bare(rows) for trial, rows in zip(trials, fresh, strict=True)}
        wanted = chosen if whole is None else [*chosen, whole]
        told = {
            (one.part, one.design): effects
            for one, effects in part_effects(wanted, results, self._options(testset.rows))
        }
        parts_now = [
            replace(one, confirmed=told.get((one.part, one.design), ())) for one in found.parts
        ]
        at_once = None
        if whole is not None:
            says = told[whole.part, whole.design]
            at_once = PartResult(whole.part, whole.design, (), confirmed=says, trial=whole.trial)
        ended = replace(
            found,
            parts=tuple(parts_now),
            together=at_once,
            openings=len(Openings.of(project.folder.openings, testset.opened)),
            confirm_rows=len(results[0]),
            notes=tuple(dict.fromkeys((*found.notes, *testset.notes))),
        )
        return AblationResult(self.stored(ended, confirm=True, tune=found), ended, self.swept)

    def stored(
        self, found: Ablation, *, confirm: bool = False, tune: Ablation | None = None
    ) -> str:
        """Store the ablation once: a row per part, and one for the rest."""
        runs = self.project.runs
        manifest = self._manifest(tune or found, confirm)
        known = runs.complete(ABLATE, manifest)
        if known is not None:
            return known
        run = runs.unfinished(ABLATE, manifest) or runs.start(ABLATE, manifest)
        for at, one in enumerate(found.parts):
            runs.append(run, RunRow(at, f"{one.design}: {one.part}", "done", part_body(one)))
        whole = found.together
        body = {
            "testset": found.testset,
            "rows": found.rows,
            "margin": found.margin,
            "personas": list(found.personas),
            "together": None if whole is None else part_body(whole),
            "openings": found.openings,
            "confirm_rows": found.confirm_rows,
            "never": list(found.never),
            "notes": list(found.notes),
        }
        runs.append(run, RunRow(len(found.parts), _WHOLE, "done", body))
        runs.finish(run, "stopped" if self.swept.stopped else "complete")
        return run

    def _manifest(self, found: Ablation, confirm: bool) -> dict[str, Any]:
        """Manifest of the conclusion; ``found`` represents the rows' scores."""
        parts = [part_body(one) for one in found.parts]
        return {
            "ablation": self.plan.study.described(),
            "sweep": self.swept.run,
            "testset": self.swept.testset,
            "measures": list(self.swept.measures),
            "presets": [one.part for one in self.plan.contrasts if one.design == "preset"],
            "margin": self.how.margin,
            "clusters": self.how.clusters,
            "confirm": confirm,
            "found": value_hash(parts),
            "version": version("ragwright"),
        }

    def _together(self, chosen: Sequence[Contrast]) -> Contrast | None:
        """All parts that are safe alone, deleted at once."""
        parts = [one.part for one in chosen if one.design == "leave one out"]
        if len(parts) < 2:
            return None
        return Contrast(" + ".join(parts), "leave one out", len(self.plan.study.points) + 1)

    def _options(self, rows: Sequence[Row]) -> EffectOptions:
        scales: dict[str, MeasureScale | None] = dict.fromkeys(self.swept.measures)
        for trial in self.swept.trials:
            scales.update({summary.measure: summary.scale for summary in trial.summaries})
        return EffectOptions(
            scales,
            {row.id: row.persona_name for row in rows},
            _clusters(rows, self.how.clusters),
            self.how.margin,
            self.how.seed,
        )

    def _prices(self, rows: Sequence[Row]) -> dict[str, float | None]:
        """Row id -> price of a prompt's token."""
        project = self.project
        known: dict[str, float | None] = {}
        for name in _personas(rows):
            model = project.persona(name).model or project.settings.answer.model
            price = project.models.price(model, Usage(1, _MILLION))
            known[name] = None if price is None else price / _MILLION
        return {row.id: known[row.persona_name] for row in rows}

    def _notes(self, scales: Mapping[str, MeasureScale | None], told: int) -> tuple[str, ...]:
        notes = list(self.swept.notes)
        unbounded = [m for m, scale in scales.items() if scale is None or scale.high is None]
        if unbounded:
            notes.append(
                f"{', '.join(unbounded)}: the scale has no upper end, so no margin of it says what "
                "is safe to delete"
            )
        lost = len(self.plan.contrasts) - told
        if lost:
            notes.append(f"{lost} parts or presets are left out: their variants have no result")
        return tuple(dict.fromkeys(notes))


def _is_safe(one: Contrast, found: Ablation) -> bool:
    return any((part.part, part.design) == (one.part, one.design) for part in found.safe)


def _bare(results: Sequence[RowResult]) -> list[RowResult]:
    """Results without their texts."""
    return [replace(result, row=None, made=None, ranking=()) for result in results]


def _failed(trial: TrialResult, results: Sequence[RowResult]) -> dict[str, str]:
    """Failed row of a variant -> reason; such rows are not used."""
    return {
        f"{result.row_id} of {trial.id}": score.reason
        for result in results
        for score in result.scores
        if score.state == "errored"
    }


def _failed_note(failed: Mapping[str, str], asked: int) -> tuple[str, ...]:
    if not failed:
        return ()
    row, why = next(iter(failed.items()))
    return (f"{len(failed)} of {asked} answers failed and are left out, first {row}: {why}",)


def _cost(tokens: Mapping[str, float], prices: Mapping[str, float | None]) -> float | None:
    """Money for tokens in 1,000 answers, None if a price is unknown."""
    costs = []
    for row, count in tokens.items():
        price = prices.get(row)
        if price is None:
            return None
        costs.append(count * price)
    return 1000 * fmean(costs) if costs else None


def _personas(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.persona_name for row in rows))


def _cluster_note(rows: Sequence[Row], by: str) -> tuple[str, ...]:
    """Why rows are clustered as they are, where the number of documents decides."""
    note = "" if by else clusters_of_rows(rows).note
    return (note,) if note else ()


def _clusters(rows: Sequence[Row], by: str) -> Mapping[str, Hashable] | None:
    """Row id -> cluster; rows of one question always stay together."""
    if by not in ("", "document", "passage", "row"):
        return {row.id: cluster_of(row, by) for row in rows}
    first: dict[str, Row] = {}
    for row in rows:
        first.setdefault(row.user_input, row)
    known = {} if by == "row" else clusters_of_rows(first.values(), by)
    if not known and len(first) == len(rows):
        return None
    asked = {row.id: first[row.user_input].id for row in rows}
    return {row: known.get(name, name) for row, name in asked.items()}


def stored_ablation(runs: Runs, run: str) -> Ablation:
    """The ablation stored in a run."""
    rows = list(runs.rows(run))
    body = next(row.body for row in rows if row.id == _WHOLE)
    whole = body["together"]
    return Ablation(
        body["testset"],
        body["rows"],
        tuple(part_of(row.body) for row in rows if row.id != _WHOLE),
        body["margin"],
        tuple(body["personas"]),
        None if whole is None else part_of(whole),
        body["openings"],
        body["confirm_rows"],
        tuple(body["never"]),
        tuple(body["notes"]),
    )
