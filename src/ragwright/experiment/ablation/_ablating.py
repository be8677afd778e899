"""Ablations of a project's prompt: a study over its parts, effects per part, confirmation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from statistics import fmean
from typing import Any

from ...answer import PromptOptions, compose, presets, prompt_parts
from ...core import (
    ConfigError,
    PromptError,
    RagwrightError,
    Row,
    Usage,
    make_plain,
    suggest_name,
    value_hash,
)
from ...flow import RunRow, Runs
from ...measure import MeasureScale, parse_measures
from ...models import NO_MODEL
from ...project import ABLATE, Project, refuse_forget
from ...testsets import Openings, project_testset
from ..evaluations import (
    RowResult,
    check_run_name,
    clusters_of_rows,
    load_evaluation,
    measures_of_answers,
    questions_of,
    read_plain,
)
from ..studies import (
    Point,
    Study,
    StudyOptions,
    SweepForecast,
    SweepOptions,
    SweepResult,
    TrialResult,
    forecast_sweep,
    run_sweep,
    run_trials,
    study_rows,
)
from ._part_effects import (
    Ablation,
    AblationPlan,
    Contrast,
    EffectOptions,
    PartRemoval,
    PartResult,
    ablation_plan,
    deletion,
    part_effects,
    part_tokens,
    prompt_of,
    prompt_sizes,
)

_ALL = ("all", "a8")
_BARE = ("context", "question")
_HALVES = ("instruction_tokens", "assistant_cue")
_MILLION = 1_000_000
_COUNTED = 10_000


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
    return _Ablation(project, testset, measures, options or AblationOptions()).plan


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
    result = _Ablation(project, testset, measures, options).run()
    if options.name:
        project.runs.name(result.run, options.name)
    return result


class _Ablation:
    """An ablation: its variants, checked against the prompt, and what they show."""

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
        self._project, self._options = project, options
        study = StudyOptions(
            testset=testset,
            limit=options.limit,
            seed=options.seed,
            personas=options.personas,
        )
        for name in options.personas:
            project.persona(name)
        self._rows = study_rows(project, Study("", study, ()))
        self._personas = list(dict.fromkeys(row.persona_name for row in self._rows.rows))
        for name in self._personas:
            if self._answer_model(name) == NO_MODEL:
                persona = f" for {name}" if name else ""
                raise ConfigError(  # an answer that is quoted has no prompt
                    f"answers{persona} have no prompt without a chat model: an ablation needs one",
                    where="answer.model",
                    hint="name one, such as  --set answer.model=ollama:llama3.2",
                )
        # Measures that do not read the answer are left out: no part of a prompt changes them.
        usable, unmoved = measures_of_answers(project, self._rows.rows, measures)
        self._unmoved = ", ".join(map(str, unmoved))
        if not usable:
            raise ConfigError(
                "no part of a prompt can change these measures, which do not read the answer: "
                + self._unmoved,
                where="--measures",
                hint="name measures of answers, such as TokenF1 or Faithfulness",
            )
        kept = ", ".join(map(str, usable)) if unmoved else measures
        self._study_options = replace(study, measures=kept)
        base = project.settings.prompt
        self._parts = self._parts_of_prompts(base)
        self._never = tuple(part for part in prompt_parts(base) if part not in self._parts)

    def _answer_model(self, persona: str) -> str:
        return self._project.persona(persona).model or self._project.settings.answer.model

    @cached_property
    def plan(self) -> AblationPlan:
        """The study; every variant is composed for every persona."""
        options, base = self._options, self._project.settings.prompt
        self._check_parts(options.parts)
        parts = options.parts or tuple(part for part in self._parts if part not in _BARE)
        one_by_one = options.leave_one_out or not options.presets
        names = tuple(
            preset
            for name in options.presets
            for preset in (presets() if name in _ALL else (name,))
        )
        ablated = PartRemoval(names, parts if one_by_one else ())
        plan = ablation_plan(ablated, base, self._study_options)
        for point in plan.study.points:
            self._parts_of_prompts(prompt_of(base, point))
        return plan

    def _parts_of_prompts(self, options: PromptOptions) -> tuple[str, ...]:
        """Return the parts in the prompt of any persona, in their order."""
        questions = {row.persona_name: row.user_input for row in reversed(self._rows.rows)}
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
            if name in self._never:
                raise PromptError(
                    f"the part {name!r} is empty in every row's prompt: nothing can be left out",
                    where=base.template or "the shipped prompt",
                    hint="ask for personas whose files fill it: --personas engineer,marketing",
                )

    def run(self) -> AblationResult:
        """Run the variants, and measure the parts that are safe to delete again if requested."""
        sweep = SweepOptions(self._options.retry_errors, self._options.on_trial)
        swept = run_sweep(self._project, self.plan.study, sweep)
        scales: dict[str, MeasureScale | None] = dict.fromkeys(swept.measures)
        for trial in swept.trials:
            scales.update({summary.measure: summary.scale for summary in trial.summaries})
        ablation = self._measure(swept, scales)
        if self._options.confirm and swept.stopped is None and ablation.safe:
            return self._confirm(ablation, swept, scales)
        return AblationResult(self._store(ablation, ablation, swept), ablation, swept)

    def _measure(self, swept: SweepResult, scales: Mapping[str, MeasureScale | None]) -> Ablation:
        """Return the results on the tune split."""
        rows = self._rows.rows
        results, sizes = {}, {}
        failed: dict[str, str] = {}
        count = lru_cache(_COUNTED)(self._project.tokenizer.count)
        for trial in swept.trials:
            if trial.state != "done":
                continue
            rows_of_trial = load_evaluation(self._project.runs, trial.run).results
            sizes[trial.number] = prompt_sizes(rows_of_trial, count)
            results[trial.number] = _drop_texts(rows_of_trial)
            failed |= {
                f"{result.row_id} of {trial.id}": score.reason
                for result in rows_of_trial
                for score in result.scores
                if score.state == "errored"
            }
        prices = self._token_prices()
        parts = []
        for contrast, effects in part_effects(
            self.plan.contrasts, results, self._effect_options(rows, scales)
        ):
            tokens = part_tokens(contrast, sizes)
            priced = [(count, prices[row]) for row, count in tokens.items()]
            costs = [count * price for count, price in priced if price is not None]
            parts.append(
                PartResult(
                    contrast.part,
                    contrast.design,
                    effects,
                    fmean(tokens.values()) if tokens else None,
                    1000 * fmean(costs) if costs and len(costs) == len(tokens) else None,
                    contrast.trial,
                )
            )
        notes = [*swept.notes, *self._scope_notes(scales, len(parts))]
        if failed:
            total = sum(map(len, results.values()))
            notes.append(
                f"{len(failed)} of {total} answers failed and are left out, first "
                f"{': '.join(next(iter(failed.items())))}"
            )
        return Ablation(
            self._rows.name,
            len(results.get(0, ())),
            tuple(parts),
            self._options.margin,
            tuple(self._personas) if len(self._personas) > 1 else (),
            never=self._never,
            notes=tuple(dict.fromkeys(filter(None, notes))),
            questions=questions_of(rows),
        )

    def _scope_notes(
        self, scales: Mapping[str, MeasureScale | None], measured: int
    ) -> Iterator[str]:
        unbounded = [m for m, scale in scales.items() if scale is None or scale.high is None]
        if unbounded:
            yield (
                f"{', '.join(unbounded)}: the scale has no upper end, so no margin shows what "
                "is safe to delete"
            )
        missing = len(self.plan.contrasts) - measured
        if missing:
            yield f"{missing} parts or presets are left out: their variants have no result"
        if not self._options.clusters:
            yield clusters_of_rows(self._rows.rows).note
        if self._unmoved:
            yield (
                f"left out, since no part of a prompt can change what is retrieved: {self._unmoved}"
            )

    def _confirm(
        self, tune: Ablation, swept: SweepResult, scales: Mapping[str, MeasureScale | None]
    ) -> AblationResult:
        """Measure the parts that are safe to delete again, on held-out rows."""
        project, study = self._project, self.plan.study
        finished_run = project.runs.complete(ABLATE, self._manifest(tune, swept, confirm=True))
        if finished_run is not None:
            stored = load_ablation(project.runs, finished_run)
            return AblationResult(finished_run, stored, swept, again=True)
        safe = {(part.part, part.design) for part in tune.safe}
        chosen = [one for one in self.plan.contrasts if (one.part, one.design) in safe]
        testset = project_testset(
            project.folder,
            study.options.testset,
            "confirm",
            purpose=f"ablation: do without {', '.join(contrast.part for contrast in chosen)}",
        ).asked_for(study.options.personas)
        points: dict[int, Point] = {0: {}}
        points |= {contrast.trial: study.points[contrast.trial - 1] for contrast in chosen}
        together = None
        parts = [contrast.part for contrast in chosen if contrast.design == "leave one out"]
        if len(parts) > 1:  # all at once
            together = Contrast(" + ".join(parts), "leave one out", len(study.points) + 1)
            points[together.trial] = deletion(project.settings.prompt, parts, study)
        measures = parse_measures(swept.measures)
        fresh = run_trials(project, study, points.values(), testset, measures)
        results = {number: _drop_texts(rows) for number, rows in zip(points, fresh, strict=True)}
        options = self._effect_options(testset.rows, scales)
        contrasts = chosen if together is None else [*chosen, together]
        effects = {
            (contrast.part, contrast.design): effects
            for contrast, effects in part_effects(contrasts, results, options)
        }
        ablation = replace(
            tune,
            parts=tuple(
                replace(part, confirmed=effects.get((part.part, part.design), ()))
                for part in tune.parts
            ),
            together=None
            if together is None
            else PartResult(
                together.part,
                together.design,
                (),
                trial=together.trial,
                confirmed=effects[together.part, together.design],
            ),
            openings=len(Openings.of(project.folder.openings, testset.opened)),
            confirm_rows=len(results[0]),
            notes=tuple(dict.fromkeys((*tune.notes, *testset.notes))),
        )
        run = self._store(ablation, tune, swept, confirm=True)
        return AblationResult(run, ablation, swept)

    def _store(
        self, ablation: Ablation, tune: Ablation, swept: SweepResult, *, confirm: bool = False
    ) -> str:
        """Store the ablation once, in one row."""
        runs, manifest = self._project.runs, self._manifest(tune, swept, confirm)
        known = runs.complete(ABLATE, manifest)
        if known is not None:
            return known
        run = runs.unfinished(ABLATE, manifest) or runs.start(ABLATE, manifest)
        runs.append(run, RunRow(0, "ablation", "done", make_plain(ablation)))
        runs.finish(run, "stopped" if swept.stopped else "complete")
        return run

    def _manifest(self, tune: Ablation, swept: SweepResult, confirm: bool) -> dict[str, Any]:
        """Return the manifest of the conclusion; ``tune`` stands for the rows' scores."""
        return {
            "ablation": self.plan.study.described(),
            "sweep": swept.run,
            "testset": swept.testset,
            "measures": list(swept.measures),
            "presets": [one.part for one in self.plan.contrasts if one.design == "preset"],
            "margin": self._options.margin,
            "clusters": self._options.clusters,
            "confirm": confirm,
            "found": value_hash(make_plain(tune.parts)),
            "version": version("ragwright"),
        }

    def _effect_options(
        self, rows: Sequence[Row], scales: Mapping[str, MeasureScale | None]
    ) -> EffectOptions:
        return EffectOptions(
            scales,
            {row.id: row.persona_name for row in rows},
            _row_clusters(rows, self._options.clusters),
            self._options.margin,
            self._options.seed,
        )

    def _token_prices(self) -> dict[str, float | None]:
        """Row id -> price of one token of its prompt."""
        prices = {
            name: self._project.models.price(self._answer_model(name), Usage(1, _MILLION))
            for name in self._personas
        }
        known = {name: price and price / _MILLION for name, price in prices.items()}
        return {row.id: known[row.persona_name] for row in self._rows.rows}


def _drop_texts(results: Sequence[RowResult]) -> list[RowResult]:
    """Drop the texts of results."""
    return [replace(result, row=None, made=None, ranking=()) for result in results]


def _row_clusters(rows: Sequence[Row], by: str) -> Mapping[str, Hashable] | None:
    """Row id -> cluster; rows of one question always stay together."""
    if by not in ("", "document", "passage", "row"):
        return clusters_of_rows(rows, by)
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
    [row] = runs.rows(run)
    return read_plain(Ablation, row.body)
