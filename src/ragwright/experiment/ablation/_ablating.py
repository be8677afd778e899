"""Ablations of a project's prompt: a study over its parts, effects per part, confirmation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from statistics import fmean
from typing import Any

from ...answer import PromptOptions, compose, presets, prompt_parts
from ...core import ConfigError, PromptError, RagwrightError, Row, Usage, suggest_name, value_hash
from ...flow import RunRow, Runs
from ...measure import MeasureScale, parse_measures
from ...models import NO_MODEL
from ...project import ABLATE, Project, refuse_forget
from ...testsets import Openings, Testset, project_testset
from ..confirmation import run_trials
from ..evaluations import (
    RowResult,
    check_run_name,
    cluster_of,
    clusters_of_rows,
    load_evaluation,
    measures_of_answers,
    questions_of,
)
from ..studies import (
    Study,
    StudyOptions,
    SweepForecast,
    SweepOptions,
    SweepResult,
    Trial,
    TrialResult,
    forecast_sweep,
    run_sweep,
    study_rows,
)
from ._ablation_verdict import Ablation
from ._part_effects import (
    AblationPlan,
    Contrast,
    EffectOptions,
    PartRemoval,
    PartResult,
    ablation_plan,
    deletion,
    part_body,
    part_effects,
    part_of,
    part_tokens,
    prompt_of,
    prompt_sizes,
)

_ALL = ("all", "a8")
_BARE = ("context", "question")
_HALVES = ("instruction_tokens", "assistant_cue")
_MILLION = 1_000_000
_COUNTED = 10_000
_SUMMARY_ROW = "ablation"
"""Row of a stored ablation that holds everything not about one part."""


@dataclass(frozen=True, slots=True)
class AblationOptions:
    """Settings of an ablation.

    Attributes:
        presets: Names of presets; ``all`` or ``a8`` for every one.
        leave_one_out: Leave out each part alone; the default.
        parts: Parts that are left out; by default all in the rows' prompts, except context and
            question.
        personas: Personas that every question is asked for; if empty, each row's own.
        margin: Highest cost of a deletion, as a share of a measure's scale.
        clusters: What related rows share: ``document`` (gold documents, the default), ``row`` for
            none, or a column. Rows of one question always belong together.
        limit: Most questions of the tune split, chosen by the seed.
        seed: Seed of the choice, of flips and of resampling.
        confirm: Check the parts that are safe to delete on the confirm split.
        retry_errors: Also rerun rows that failed.
        name: Name of the run, empty for its id only.
        on_trial: Called with every variant as it ends.
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
        run: Run that stores the result.
        ablation: Effects of every part.
        sweep: The sweep behind it.
        again: True if it was confirmed before and the stored result is shown.
    """

    run: str
    ablation: Ablation
    sweep: SweepResult
    again: bool = False

    @property
    def stopped(self) -> RagwrightError | None:
        """Error that kept variants from running; None if all were run."""
        return self.sweep.stopped


def plan_ablation(
    project: Project, testset: str, measures: str, options: AblationOptions | None = None
) -> AblationPlan:
    """Plan the study of an ablation; every variant of the prompt is rendered once beforehand.

    Raises:
        ConfigError: No chat model writes the answers, or the margin is not a share.
        PromptError: An unknown part, preset or persona, or a fault in a prompt file.
        StudyError: Nothing is left out, or the presets do not fit the project's prompt.
        TestsetError: The testset cannot be read, or its tune split is empty.
    """
    return _VariantPlanner(project, testset, measures, options or AblationOptions()).plan()


def forecast_ablation(
    project: Project, testset: str, measures: str, options: AblationOptions | None = None
) -> SweepForecast:
    """Forecast the calls and cost of an ablation without calling a model; raises as its plan."""
    options = options or AblationOptions()
    forecast = forecast_sweep(project, plan_ablation(project, testset, measures, options).study)
    if not options.confirm:
        return forecast
    note = "calls of --confirm depend on the outcome and are not included"
    return replace(forecast, notes=(*forecast.notes, note))


@refuse_forget("ablate")
def run_ablation(
    project: Project, testset: str, measures: str, options: AblationOptions | None = None
) -> AblationResult:
    """Run every variant of the prompt on the tune split and measure the effect of each part.

    The variants are trials of a sweep: shared work is done once, and an interrupted ablation
    continues. With ``options.confirm`` the parts that are safe to delete are checked on the confirm
    split, each alone and all at once; it is opened once, which is logged, and stays closed if no
    part is safe.

    Raises the errors of :func:`plan_ablation` and of a sweep.
    """
    options = options or AblationOptions()
    check_run_name(options.name)
    planning = _VariantPlanner(project, testset, measures, options)
    plan = planning.plan()
    swept = run_sweep(project, plan.study, SweepOptions(options.retry_errors, options.on_trial))
    ablating = _Ablation(project, plan, options, swept)
    ablation = ablating.tune_result(planning.rows, planning.never)
    if planning.unmoved:
        names = ", ".join(planning.unmoved)
        note = f"left out, since no part of a prompt can change what is retrieved: {names}"
        ablation = replace(ablation, notes=(*ablation.notes, note))
    if options.confirm and swept.stopped is None and ablation.safe:
        result = ablating.confirm(ablation)
    else:
        result = AblationResult(ablating.store(ablation), ablation, swept)
    if options.name:
        project.runs.name(result.run, options.name)
    return result


class _VariantPlanner:
    """The variants to run, checked against the prompt."""

    def __init__(
        self, project: Project, testset: str, measures: str, options: AblationOptions
    ) -> None:
        if measures:
            parse_measures(measures)  # a misspelt name is reported before any file is read
        if not 0 < options.margin < 1:
            raise ConfigError(
                f"the margin must be between 0 and 1, not {options.margin:g}",
                where="--margin",
                hint="it is a share of the measure's scale: 0.05 is 5 % of it",
            )
        self._project = project
        self._ablating = options
        self.unmoved: tuple[str, ...] = ()
        self._options = StudyOptions(
            testset=testset,
            measures=measures,
            limit=options.limit,
            seed=options.seed,
            personas=options.personas,
        )
        for name in options.personas:
            project.persona(name)
        self.rows = study_rows(project, Study("", self._options, ()))
        for name in dict.fromkeys(row.persona_name for row in self.rows.rows):
            if (project.persona(name).model or project.settings.answer.model) == NO_MODEL:
                persona = f" for {name}" if name else ""
                raise ConfigError(  # an answer that is quoted has no prompt
                    f"answers{persona} have no prompt without a chat model: an ablation needs one",
                    where="answer.model",
                    hint="name one, such as  --set answer.model=ollama:llama3.2",
                )
        self._keep_measures_of_answers(measures)
        self._parts = self._parts_of_prompts(project.settings.prompt)
        known = prompt_parts(project.settings.prompt)
        self.never = tuple(part for part in known if part not in self._parts)

    def plan(self) -> AblationPlan:
        """Plan the study; every variant is composed for every persona."""
        options, base = self._ablating, self._project.settings.prompt
        self._check_parts(options.parts)
        parts = options.parts or tuple(part for part in self._parts if part not in _BARE)
        one_by_one = options.leave_one_out or not options.presets
        ablated = PartRemoval(_preset_names(options.presets), parts if one_by_one else ())
        plan = ablation_plan(ablated, base, self._options)
        for point in plan.study.points:
            self._parts_of_prompts(prompt_of(base, point))
        return plan

    def _keep_measures_of_answers(self, measures: str) -> None:
        """Leave out measures that do not read the answer: no part of a prompt changes them."""
        usable, others = measures_of_answers(self._project, self.rows.rows, measures)
        self.unmoved = tuple(map(str, others))
        if not usable:
            raise ConfigError(
                "no part of a prompt can change these measures, which do not read the answer: "
                + ", ".join(self.unmoved),
                where="--measures",
                hint="name measures of answers, such as TokenF1 or Faithfulness",
            )
        if others:
            self._options = replace(self._options, measures=", ".join(map(str, usable)))

    def _parts_of_prompts(self, options: PromptOptions) -> tuple[str, ...]:
        """Return the parts in the prompt of any persona, in their order."""
        questions = {row.persona_name: row.user_input for row in reversed(self.rows.rows)}
        parts = {
            part
            for name, question in questions.items()
            for part, _ in compose(question, self._project.persona(name), (), options).parts
        }
        return tuple(part for part in prompt_parts(options) if part in parts)

    def _check_parts(self, names: Sequence[str]) -> None:
        base = self._project.settings.prompt
        known = (*prompt_parts(base), *_HALVES)
        for name in names:
            if name not in known:
                raise PromptError(
                    f"the prompt has no part {name!r}",
                    where=base.template or "the shipped prompt",
                    hint=suggest_name(name, known),
                )
            if name in self.never:
                raise PromptError(
                    f"the part {name!r} is empty in every row's prompt: nothing can be left out",
                    where=base.template or "the shipped prompt",
                    hint="ask for personas whose files fill it: --personas engineer,marketing",
                )


def _preset_names(names: Iterable[str]) -> tuple[str, ...]:
    all_names: dict[str, None] = {}
    for name in names:
        all_names.update(dict.fromkeys(presets() if name in _ALL else [name]))
    return tuple(all_names)


@dataclass(slots=True)
class _Ablation:
    """An ablation whose variants have been run."""

    project: Project
    plan: AblationPlan
    options: AblationOptions
    swept: SweepResult

    def tune_result(self, rows: Testset, never: tuple[str, ...]) -> Ablation:
        """Return the results on the tune split."""
        finished = [trial for trial in self.swept.trials if trial.state == "done"]
        results = {}
        sizes = {}
        failed: dict[str, str] = {}
        count = lru_cache(_COUNTED)(self.project.tokenizer.count)
        for trial in finished:
            rows_of_trial = load_evaluation(self.project.runs, trial.run).results
            sizes[trial.number] = prompt_sizes(rows_of_trial, count)
            results[trial.number] = _drop_texts(rows_of_trial)
            failed |= {
                f"{result.row_id} of {trial.id}": score.reason
                for result in rows_of_trial
                for score in result.scores
                if score.state == "errored"
            }
        options = self._options(rows.rows)
        prices = self._token_prices(rows.rows)
        parts = []
        for contrast, effects in part_effects(self.plan.contrasts, results, options):
            tokens = part_tokens(contrast, sizes)
            mean = fmean(tokens.values()) if tokens else None
            parts.append(
                PartResult(
                    contrast.part,
                    contrast.design,
                    effects,
                    mean,
                    _cost_per_thousand(tokens, prices),
                    contrast.trial,
                )
            )
        personas = _persona_names(rows.rows)
        cluster_note = "" if self.options.clusters else clusters_of_rows(rows.rows).note
        return Ablation(
            rows.name,
            len(results.get(0, ())),
            tuple(parts),
            self.options.margin,
            tuple(personas) if len(personas) > 1 else (),
            never=never,
            notes=(
                *self._ablation_notes(options.scales, len(parts)),
                *_failed_note(failed, sum(map(len, results.values()))),
                *((cluster_note,) if cluster_note else ()),
            ),
            questions=questions_of(rows.rows),
        )

    def confirm(self, tune: Ablation) -> AblationResult:
        """Measure the parts that are safe to delete again, on held-out rows."""
        project, study = self.project, self.plan.study
        finished_run = project.runs.complete(ABLATE, self._ablation_manifest(tune, confirm=True))
        if finished_run is not None:
            return AblationResult(
                finished_run, load_ablation(project.runs, finished_run), self.swept, again=True
            )
        chosen = [
            contrast
            for contrast in self.plan.contrasts
            if (contrast.part, contrast.design) in {(part.part, part.design) for part in tune.safe}
        ]
        names = ", ".join(contrast.part for contrast in chosen)
        testset = project_testset(
            project.folder,
            study.options.testset,
            "confirm",
            purpose=f"ablation: do without {names}",
        ).asked_for(study.options.personas)
        trials = [Trial(0, {})]
        trials += [Trial(contrast.trial, study.points[contrast.trial - 1]) for contrast in chosen]
        together = self._deleted_together(chosen)
        if together is not None:
            parts = [contrast.part for contrast in chosen if contrast.design == "leave one out"]
            trials.append(Trial(together.trial, deletion(project.settings.prompt, parts, study)))
        fresh = run_trials(project, study, trials, testset, parse_measures(self.swept.measures))
        results = {
            trial.number: _drop_texts(rows) for trial, rows in zip(trials, fresh, strict=True)
        }
        contrasts = chosen if together is None else [*chosen, together]
        effects_of = {
            (contrast.part, contrast.design): effects
            for contrast, effects in part_effects(contrasts, results, self._options(testset.rows))
        }
        parts_now = [
            replace(part, confirmed=effects_of.get((part.part, part.design), ()))
            for part in tune.parts
        ]
        at_once = None
        if together is not None:
            effects = effects_of[together.part, together.design]
            at_once = PartResult(
                together.part, together.design, (), confirmed=effects, trial=together.trial
            )
        ablation = replace(
            tune,
            parts=tuple(parts_now),
            together=at_once,
            openings=len(Openings.of(project.folder.openings, testset.opened)),
            confirm_rows=len(results[0]),
            notes=tuple(dict.fromkeys((*tune.notes, *testset.notes))),
        )
        return AblationResult(self.store(ablation, confirm=True, tune=tune), ablation, self.swept)

    def store(
        self, ablation: Ablation, *, confirm: bool = False, tune: Ablation | None = None
    ) -> str:
        """Store the ablation once: a row per part, and one for the rest."""
        runs = self.project.runs
        manifest = self._ablation_manifest(tune or ablation, confirm)
        known = runs.complete(ABLATE, manifest)
        if known is not None:
            return known
        run = runs.unfinished(ABLATE, manifest) or runs.start(ABLATE, manifest)
        for position, part in enumerate(ablation.parts):
            runs.append(
                run, RunRow(position, f"{part.design}: {part.part}", "done", part_body(part))
            )
        together = ablation.together
        body = {
            "testset": ablation.testset,
            "rows": ablation.rows,
            "margin": ablation.margin,
            "personas": list(ablation.personas),
            "together": None if together is None else part_body(together),
            "openings": ablation.openings,
            "confirm_rows": ablation.confirm_rows,
            "never": list(ablation.never),
            "notes": list(ablation.notes),
            "questions": ablation.questions,
        }
        runs.append(run, RunRow(len(ablation.parts), _SUMMARY_ROW, "done", body))
        runs.finish(run, "stopped" if self.swept.stopped else "complete")
        return run

    def _ablation_manifest(self, ablation: Ablation, confirm: bool) -> dict[str, Any]:
        """Return the manifest of the conclusion; ``ablation`` stands for the rows' scores."""
        return {
            "ablation": self.plan.study.described(),
            "sweep": self.swept.run,
            "testset": self.swept.testset,
            "measures": list(self.swept.measures),
            "presets": [
                contrast.part for contrast in self.plan.contrasts if contrast.design == "preset"
            ],
            "margin": self.options.margin,
            "clusters": self.options.clusters,
            "confirm": confirm,
            "found": value_hash([part_body(part) for part in ablation.parts]),
            "version": version("ragwright"),
        }

    def _deleted_together(self, chosen: Sequence[Contrast]) -> Contrast | None:
        """Return all parts that are safe alone, deleted at once."""
        parts = [contrast.part for contrast in chosen if contrast.design == "leave one out"]
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
            _row_clusters(rows, self.options.clusters),
            self.options.margin,
            self.options.seed,
        )

    def _token_prices(self, rows: Sequence[Row]) -> dict[str, float | None]:
        """Row id -> price of one token of its prompt."""
        project = self.project
        known: dict[str, float | None] = {}
        for name in _persona_names(rows):
            model = project.persona(name).model or project.settings.answer.model
            price = project.models.price(model, Usage(1, _MILLION))
            known[name] = None if price is None else price / _MILLION
        return {row.id: known[row.persona_name] for row in rows}

    def _ablation_notes(
        self, scales: Mapping[str, MeasureScale | None], measured: int
    ) -> tuple[str, ...]:
        notes = list(self.swept.notes)
        unbounded = [m for m, scale in scales.items() if scale is None or scale.high is None]
        if unbounded:
            notes.append(
                f"{', '.join(unbounded)}: the scale has no upper end, so no margin shows what "
                "is safe to delete"
            )
        missing = len(self.plan.contrasts) - measured
        if missing:
            notes.append(f"{missing} parts or presets are left out: their variants have no result")
        return tuple(dict.fromkeys(notes))


def _drop_texts(results: Sequence[RowResult]) -> list[RowResult]:
    """Drop the texts of results."""
    return [replace(result, row=None, made=None, ranking=()) for result in results]


def _failed_note(failed: Mapping[str, str], total: int) -> tuple[str, ...]:
    if not failed:
        return ()
    row, reason = next(iter(failed.items()))
    return (f"{len(failed)} of {total} answers failed and are left out, first {row}: {reason}",)


def _cost_per_thousand(
    tokens: Mapping[str, float], prices: Mapping[str, float | None]
) -> float | None:
    """Return the price of tokens in 1,000 answers; None if a price is unknown."""
    costs = []
    for row, count in tokens.items():
        price = prices.get(row)
        if price is None:
            return None
        costs.append(count * price)
    return 1000 * fmean(costs) if costs else None


def _persona_names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.persona_name for row in rows))


def _row_clusters(rows: Sequence[Row], by: str) -> Mapping[str, Hashable] | None:
    """Row id -> cluster; rows of one question always stay together."""
    if by not in ("", "document", "passage", "row"):
        return {row.id: cluster_of(row, by) for row in rows}
    first: dict[tuple[object, ...], Row] = {}
    for row in rows:
        first.setdefault((row.user_input, row.history), row)
    known = {} if by == "row" else clusters_of_rows(first.values(), by)
    if not known and len(first) == len(rows):
        return None
    first_ids = {row.id: first[row.user_input, row.history].id for row in rows}
    return {row: known.get(name, name) for row, name in first_ids.items()}


def load_ablation(runs: Runs, run: str) -> Ablation:
    """Return the ablation stored in a run."""
    rows = list(runs.rows(run))
    body = next(row.body for row in rows if row.id == _SUMMARY_ROW)
    together = body["together"]
    return Ablation(
        body["testset"],
        body["rows"],
        tuple(part_of(row.body) for row in rows if row.id != _SUMMARY_ROW),
        body["margin"],
        tuple(body["personas"]),
        None if together is None else part_of(together),
        body["openings"],
        body["confirm_rows"],
        tuple(body["never"]),
        tuple(body["notes"]),
        body["questions"],
    )
