"""Dry runs of sweeps: the real plan, with missing indexes built temporarily."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ...core import ConfigError, RetrieveError, Row, text_hash
from ...flow import Flow, Forecast, Runner, RunnerOptions, embed
from ...index import Store, View, Views, open_store
from ...models import Models
from ...project import (
    TRIAL,
    Feed,
    Project,
    ProjectHandlers,
    StoredDocuments,
    make_ingest,
    refuse_fetch,
)
from ...testsets import Testset
from ..evaluations import plan_evaluation
from ._study import Study
from ._sweeping import study_rows, trial_how
from ._trials import Trial, grid_points, random_points, variant_of

T = TypeVar("T")

_ALL = 100
"""Most answers of a study (trials times rows) for which a dry run goes through each of them."""

_PART = 40
"""Beyond that, a dry run goes through one row in this many, and one document in this many."""

_CHARACTERS = 200_000
"""Least text, in characters, of an index that a dry run builds on a sample."""

_MARGIN = 0.2
"""Share by which a sample's low and high ends are widened."""

_ENDS = 5
"""One answer of a sample in this many is also walked for the low and the high end."""

_WIDTH = 8
"""Length of stand-in vectors for a server that was never called."""

Maker = Callable[[], Flow[Any]]


@dataclass(frozen=True, slots=True)
class SweepForecast:
    """Forecast of a sweep.

    Attributes:
        trials: Trials that would be run, including the current settings.
        invalid: Invalid combinations of values.
        rows: Rows of the tune split.
        indexes: Indexes that would be built.
        forecast: Calls, tokens, money and time, those of embedding the corpus included.
        notes: Notes on estimates.
    """

    trials: int
    invalid: int
    rows: int
    indexes: int
    forecast: Forecast
    notes: tuple[str, ...] = ()


class _Beside(Views):
    """Views of two stores: the temporary one and the project's."""

    def __init__(self, real: Views, aside: Store) -> None:
        super().__init__(aside)
        self._real = real
        self._aside = aside

    def answer(self, snapshot: str, ask: Callable[[View], T]) -> tuple[T, tuple[str, ...]]:
        """From the store with the snapshot."""
        key = snapshot.partition("@")[0]
        if any(spec.key == key for spec in self._aside.index_specs()):
            return super().answer(snapshot, ask)
        return self._real.answer(snapshot, ask)


def forecast_sweep(project: Project, study: Study) -> SweepForecast:
    """Calls and cost of a sweep; writes nothing and calls no model.

    Flows are followed as they would run. A missing index is built in a temporary folder: its
    keyword search is real, missing vectors are replaced by stand-ins, so that calls are counted on
    other hits than in the run.

    Raises:
        RetrieveError: The project itself has not been ingested.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        aside = open_store(project.settings.store, folder)
        stack.callback(aside.close)
        return _DryRun(project, study, aside, stack).forecast()


class _DryRun:
    """A dry run in progress."""

    def __init__(self, project: Project, study: Study, aside: Store, stack: ExitStack) -> None:
        self._project = project
        self._study = study
        self._aside = aside
        self._stack = stack
        self._families: list[tuple[Models, Project]] = []
        self._variants: dict[int, Project] = {}
        self._in_flight: set[str] = set()
        self._current: dict[str, bool] = {}
        self._unmeasured: set[str] = set()
        self._makers: dict[tuple[int, float], list[Maker]] = {}
        self._complete = True
        self._walked: list[Row] = []
        self._document_share = (0, 0)

    def forecast(self) -> SweepForecast:
        """Walk every trial on all rows, or on a sample of them where there are many."""
        project, options = self._project, self._study.options
        if not project.store.holds(project.index_spec):
            project.target()  # raises with what is missing
            raise RetrieveError("nothing is indexed")
        base = self._variant(Trial(0, {}))
        evaluating = trial_how(self._study)
        planned = plan_evaluation(
            base, study_rows(project, self._study), options.measures, evaluating
        )
        testset = planned.rows
        # Random points stand in for those that a search will suggest.
        grid = options.search == "grid"
        points = list(grid_points(self._study)) if grid else random_points(self._study)
        self._complete = (len(points) + 1) * len(testset.rows) <= _ALL
        strata = [self._sampled_groups(rows, testset.name) for rows in self._strata(testset)]
        self._walked = [row for groups in strata for rows, _ in groups for row in rows]
        trials, invalid = self._trials(points)
        for groups, round_trials in zip(strata, self._rounds(trials, strata), strict=True):
            for rows, times in groups:
                for trial in round_trials:
                    variant = self._variant(trial)
                    part = replace(testset, rows=rows)
                    plan = plan_evaluation(
                        variant, part, planned.measures, evaluating, sampled=True
                    )
                    self._add_flows(variant, [make for _, make in plan.job.items], times)
        return SweepForecast(
            len(trials),
            invalid,
            len(testset.rows),
            self._missing_indexes,
            self._total_forecast(),
            self._forecast_notes(testset),
        )

    def _trials(self, points: Sequence[Mapping[str, Any]]) -> tuple[list[Trial], int]:
        """Return the trials that can be run, and the number of those that cannot."""
        trials = [Trial(0, {})]
        for number, point in enumerate(points, 1):
            trial = Trial(number, point)
            with suppress(ConfigError):
                self._variant(trial)
                trials.append(trial)
        return trials, len(points) + 1 - len(trials)

    def _strata(self, testset: Testset) -> Iterator[tuple[Row, ...]]:
        """The rows that each round sees first; a rung includes the rows of earlier rungs."""
        options, seen = self._study.options, set[str]()
        rungs = [rung for rung in options.rungs if rung < testset.questions]
        for rows in (*(testset.subset(rung, options.seed).rows for rung in rungs), testset.rows):
            yield tuple(row for row in rows if row.id not in seen)
            seen |= {row.id for row in rows}

    def _rounds(
        self, trials: Sequence[Trial], strata: Sequence[object]
    ) -> Iterator[Sequence[Trial]]:
        """The trials of each round: with rungs, any trials stand for those that continue."""
        options = self._study.options
        for _ in strata[1:]:
            yield trials
            count = math.ceil(options.keep * (len(trials) - 1))
            trials = trials[: 1 + max(1, count)]
        yield trials

    def _sampled_groups(
        self, rows: tuple[Row, ...], testset: str
    ) -> list[tuple[tuple[Row, ...], float]]:
        """Return groups of rows to walk, and the number of rows that each row stands for.

        Rows that an earlier run has seen are a group, since replies for them are known; so are
        those that a persona's own model answers.
        """
        if self._complete or not rows:
            return [(rows, 1.0)]
        # Of runs on equal rows one is read.
        runs = {
            run.manifest.get("rows"): run.id
            for run in reversed(self._project.runs.list(TRIAL))
            if run.manifest.get("testset") == testset
        }
        seen = frozenset(row for run in runs.values() for row in self._project.runs.states(run))
        groups: dict[tuple[bool, str], list[Row]] = {}
        for row in rows:
            model = self._project.persona(row.persona_name).model
            groups.setdefault((row.id in seen, model), []).append(row)
        samples = []
        for group in groups.values():
            drawn = sorted(group, key=lambda row: text_hash(f"forecast\x00{row.id}"))
            drawn = drawn[: max(1, round(len(group) / _PART))]
            samples.append((tuple(drawn), len(group) / len(drawn)))
        return samples

    def _variant(self, trial: Trial) -> Project:
        """A trial's project, with a temporary index if its own is missing or out of date."""
        known = self._variants.get(trial.number)
        if known is not None:
            return known
        variant = variant_of(self._project, self._study, trial)
        twin = next((twin for models, twin in self._families if models is variant.models), None)
        twin = twin or self._runner_family(variant)
        variant.models = twin.models
        variant.__dict__["runner"] = twin.runner
        spec, model = variant.index_spec, variant.settings.embed.model
        if spec.embedder and not spec.dimensions:
            variant.models.known_dimensions[model] = _WIDTH
            variant.__dict__["index_spec"] = replace(spec, dimensions=_WIDTH)
            if model not in self._unmeasured:
                self._unmeasured.add(model)
                self._add_flows(variant, [lambda: embed(model, ["How long is a vector?"])])
        if not self._is_current(variant):
            variant.__dict__.update(store=self._aside, views=twin.views)
        self._variants[trial.number] = variant
        return variant

    def _is_current(self, variant: Project) -> bool:
        """True if the index holds the project's documents; else it is built temporarily."""
        key = variant.index_spec.key
        if key not in self._current:
            project = self._project
            wanted = project.store.content_hashes(project.index_spec)
            self._current[key] = variant.store.content_hashes(variant.index_spec) == wanted
            if not self._current[key]:
                self._build_aside(variant)
        return self._current[key]

    def _runner_family(self, variant: Project) -> Project:
        """A shared project for all trials with equal requests."""
        settings, session = variant.settings, self._project.session
        twin = variant.variant(settings)
        twin.models = Models(settings.models, settings.embed, self._project.folder.root)
        twin.models.known_dimensions.update(variant.models.known_dimensions)
        twin.__dict__["views"] = _Beside(variant.views, self._aside)
        options = RunnerOptions(
            concurrency=settings.budget.concurrency,
            jobs=session.jobs,
            reuse=session.reuse,
            attempt=session.attempt,
        )
        twin.__dict__["runner"] = Runner(
            ProjectHandlers(twin, twin.views), options, replies=self._project.replies
        )
        self._stack.callback(twin.runner.close)
        self._families.append((variant.models, twin))
        return twin

    def _add_flows(self, variant: Project, makers: Sequence[Maker], times: float = 1.0) -> None:
        """Add flows to walk, each of which stands for ``times`` flows."""
        self._makers.setdefault((id(variant.runner), times), []).extend(makers)

    def _total_forecast(self) -> Forecast:
        """Forecast all flows; estimates from a sample have wider ends."""
        runners = {id(twin.runner): twin.runner for _, twin in self._families}
        total: Forecast | None = None
        for (runner, times), makers in self._makers.items():
            part = runners[runner].forecast(makers, ends=times == 1)
            if times > 1:
                ends = runners[runner].forecast(makers[::_ENDS])
                part = part.scaled(times, ends, _MARGIN)
            total = part if total is None else total + part
        assert total is not None
        return total

    def _build_aside(self, variant: Project) -> None:
        project = self._project
        reader = StoredDocuments(project.store, project.index_spec, self._sampled_documents)
        feeds = [Feed(source, (reader,)) for source in reader.sources]
        ingest = make_ingest(variant, store=project.store)
        makers = ingest.forecast_into(feeds, refuse_fetch, self._aside, self._in_flight)
        held, total = self._document_share
        self._add_flows(variant, makers, total / held if held else 1.0)

    @cached_property
    def _sampled_documents(self) -> frozenset[str] | None:
        """The documents that missing indexes are built of; None for all.

        For a large corpus these are the gold documents of the walked rows, and others drawn until
        both the number of characters and the share of documents are reached.
        """
        if self._complete:
            return None
        project = self._project
        names = project.store.content_hashes(project.index_spec).keys()
        gold = {name for row in self._walked for name in row.reference_ids}
        gold |= {span.document_id for row in self._walked for span in row.reference_spans}
        others = sorted(names - gold, key=lambda name: text_hash(f"forecast\x00{name}"))
        chosen: set[str] = set()
        characters = 0
        for name in (*sorted(gold & names), *others):
            if characters >= _CHARACTERS and len(chosen) >= len(names) / _PART:
                break
            document = project.store.document(name)
            characters += 0 if document is None else len(document.text)
            chosen.add(name)
        if len(chosen) == len(names):
            return None
        self._document_share = (len(chosen), len(names))
        return frozenset(chosen)

    @property
    def _missing_indexes(self) -> int:
        """Number of indexes that are missing or out of date."""
        return sum(not current for current in self._current.values())

    def _forecast_notes(self, testset: Testset) -> tuple[str, ...]:
        options, notes = self._study.options, []
        if not self._complete:
            notes.append(
                f"estimated from {len(self._walked)} of {len(testset.rows)} rows, every trial of "
                f"them: low and high are {_MARGIN:.0%} further out"
            )
        held, total = self._document_share
        if held:
            notes.append(f"missing indexes are estimated from {held} of {total} documents")
        if options.search == "tpe":
            notes.append("tpe: random points replace those that results will suggest")
        if options.rungs:
            notes.append("rungs: which trials continue is not known yet, so any are counted")
        if self._missing_indexes:
            notes.append(
                f"{self._missing_indexes} indexes would be built: prompts are estimated on "
                "stand-ins for their vectors"
            )
        return tuple(notes)
