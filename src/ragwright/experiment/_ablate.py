"""Ablations of a project's prompt: a study over its parts, effects per part, confirmation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from statistics import fmean
from typing import Any

from ..answer import PromptOptions, compose, presets, prompt_parts
from ..core import (
    ConfigError,
    PromptError,
    RagwrightError,
    Row,
    make_plain,
    suggest_name,
    value_hash,
)
from ..flow import Runs
from ..measure import MeasureScale, parse_measures
from ..models import NO_MODEL
from ..project import ABLATE, Project, refuse_forget
from ..testsets import Openings, Testset, project_testset
from ._clusters import clusters_of_rows
from ._compare_runs import questions_of
from ._dry_run import SweepForecast, forecast_sweep
from ._effects import (
    Ablation,
    EffectOptions,
    PartResult,
    ablation_plan,
    add_effects,
    leave_out,
    prompt_of,
)
from ._evaluate import measures_of_answers
from ._results import RowResult, read_plain
from ._stored_runs import check_run_name, load_evaluation
from ._study import Study, StudyOptions
from ._sweep import SweepOptions, SweepResult, open_once, run_sweep, run_trials, study_rows
from ._trials import Point, TrialResult

_ALL = ("all", "a8")
_BARE = ("context", "question")
_HALVES = ("instruction_tokens", "assistant_cue")
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
            none, or a column. Rows of one question, asked for several personas, always belong
            together.
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
) -> Study:
    """Plan the study of an ablation; every variant of the prompt is rendered once beforehand.

    Raises:
        ConfigError: No chat model writes the answers, or the margin is not a share.
        PromptError: An unknown part, preset or persona, or a fault in a prompt file.
        StudyError: Nothing is left out, or the presets do not fit the project's prompt.
        TestsetError: The testset cannot be read, or its tune split is empty.
    """
    return _Ablation(project, testset, measures, options or AblationOptions()).study


def forecast_ablation(
    project: Project, testset: str, measures: str, options: AblationOptions | None = None
) -> SweepForecast:
    """Forecast the calls and cost of an ablation without calling a model; raises as its plan."""
    forecast = forecast_sweep(project, plan_ablation(project, testset, measures, options))
    if options is None or not options.confirm:
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
            testset=testset, limit=options.limit, seed=options.seed, personas=options.personas
        )
        for name in options.personas:
            project.persona(name)
        self._rows = study_rows(project, Study("", study, ()))
        self._personas = list(dict.fromkeys(row.persona_name for row in self._rows.rows))
        for name in self._personas:
            if (project.persona(name).model or project.settings.answer.model) == NO_MODEL:
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
        base = project.settings.prompt
        parts = self._parts_of_prompts(base)
        self._never = tuple(part for part in prompt_parts(base) if part not in parts)
        self._check_parts(options.parts)
        names = [
            preset
            for name in options.presets
            for preset in (presets() if name in _ALL else (name,))
        ]
        left_out = options.parts or [part for part in parts if part not in _BARE]
        one_by_one = left_out if options.leave_one_out or not options.presets else ()
        self.study, self._planned = ablation_plan(
            names, one_by_one, base, replace(study, measures=kept)
        )
        for point in self.study.points:  # every variant is composed for every persona
            self._parts_of_prompts(prompt_of(base, point))

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
        swept = run_sweep(self._project, self.study, sweep)
        scales: dict[str, MeasureScale | None] = dict.fromkeys(swept.measures)
        for trial in swept.trials:
            scales.update({summary.measure: summary.scale for summary in trial.summaries})
        tune = self._measure(swept, scales)
        runs, manifest = self._project.runs, self._manifest(tune, swept)
        if self._options.confirm and swept.stopped is None and tune.safe:
            run, again = open_once(
                runs,
                ABLATE,
                manifest | {"confirm": True},
                lambda begun: self._open_split(tune, dry_run=begun),
                lambda _, testset: [make_plain(self._confirm(tune, testset, scales))],
            )
            return AblationResult(run, load_ablation(runs, run), swept, again)
        run, _ = open_once(
            runs, ABLATE, manifest, lambda _: None, lambda _run, _: [make_plain(tune)]
        )
        if swept.stopped is not None:
            runs.finish(run, "stopped")
        return AblationResult(run, tune, swept)

    def _measure(self, swept: SweepResult, scales: Mapping[str, MeasureScale | None]) -> Ablation:
        """Return the results on the tune split."""
        rows = self._rows.rows
        results: dict[int, list[RowResult]] = {}
        sizes: dict[int, dict[str, int]] = {}
        failed: dict[str, str] = {}
        count = lru_cache(_COUNTED)(self._project.tokenizer.count)
        for trial in swept.trials:
            if trial.state != "done":
                continue
            rows_of_trial = load_evaluation(self._project.runs, trial.run).results
            sizes[trial.number] = {
                result.row_id: sum(count(text) for _, text in result.made.prompt)
                for result in rows_of_trial
                if result.made is not None and result.made.prompt
            }
            results[trial.number] = _drop_texts(rows_of_trial)
            failed |= {
                f"{result.row_id} of {trial.id}": score.reason
                for result in rows_of_trial
                for score in result.scores
                if score.state == "errored"
            }
        parts = []
        for part in add_effects(self._planned, results, self._effect_options(rows, scales)):
            less = sizes[part.trial]
            tokens = [size - less[row] for row, size in sizes[0].items() if row in less]
            parts.append(replace(part, tokens=fmean(tokens) if tokens else None))
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
        missing = len(self._planned) - measured
        if missing:
            yield f"{missing} parts or presets are left out: their variants have no result"
        if not self._options.clusters:
            yield clusters_of_rows(self._rows.rows).note
        if self._unmoved:
            yield (
                f"left out, since no part of a prompt can change what is retrieved: {self._unmoved}"
            )

    def _open_split(self, tune: Ablation, *, dry_run: bool) -> Testset:
        options, names = self.study.options, ", ".join(part.part for part in tune.safe)
        testset = project_testset(
            self._project.folder,
            options.testset,
            "confirm",
            purpose=f"ablation: do without {names}",
            dry_run=dry_run,
        )
        return testset.asked_for(options.personas)

    def _confirm(
        self, tune: Ablation, testset: Testset, scales: Mapping[str, MeasureScale | None]
    ) -> Ablation:
        """Measure the parts that are safe to delete again on held-out rows, and all at once."""
        project, study = self._project, self.study
        points: dict[int, Point] = {0: {}}
        points |= {part.trial: study.points[part.trial - 1] for part in tune.safe}
        names = [part.part for part in tune.safe if part.design == "leave one out"]
        together = PartResult(" + ".join(names), "leave one out", len(study.points) + 1)
        if len(names) > 1:
            points[together.trial] = leave_out(project.settings.prompt, names)
        fresh = run_trials(project, study, points.values(), testset, parse_measures(list(scales)))
        results = {number: _drop_texts(rows) for number, rows in zip(points, fresh, strict=True)}
        effects = {
            (part.part, part.design): part.effects
            for part in add_effects(
                [*tune.safe, together], results, self._effect_options(testset.rows, scales)
            )
        }
        parts = [
            replace(part, confirmed=effects.get((part.part, part.design), ()))
            for part in (*tune.parts, together)
        ]
        return replace(
            tune,
            parts=tuple(parts[:-1]),
            together=parts[-1] if len(names) > 1 else None,
            openings=len(Openings.of(project.folder.openings, testset.opened)),
            confirm_rows=len(results[0]),
            notes=tuple(dict.fromkeys((*tune.notes, *testset.notes))),
        )

    def _manifest(self, tune: Ablation, swept: SweepResult) -> dict[str, Any]:
        """Return the manifest of the conclusion; ``tune`` stands for the rows' scores."""
        return {
            "ablation": self.study.described(),
            "sweep": swept.run,
            "testset": swept.testset,
            "measures": list(swept.measures),
            "presets": [part.part for part in self._planned if part.design == "preset"],
            "margin": self._options.margin,
            "clusters": self._options.clusters,
            "confirm": False,
            "found": value_hash(make_plain(tune.parts)),
            "version": version("ragwright"),
        }

    def _effect_options(
        self, rows: Sequence[Row], scales: Mapping[str, MeasureScale | None]
    ) -> EffectOptions:
        by = self._options.clusters
        return EffectOptions(
            scales,
            {row.id: row.persona_name for row in rows},
            clusters_of_rows(rows, "user_input" if by == "row" else by) or None,
            self._options.margin,
            self._options.seed,
        )


def _drop_texts(results: Sequence[RowResult]) -> list[RowResult]:
    return [replace(result, row=None, made=None, ranking=()) for result in results]


def load_ablation(runs: Runs, run: str) -> Ablation:
    """Return the ablation stored in a run."""
    [row] = runs.rows(run)
    return read_plain(Ablation, row.body)
