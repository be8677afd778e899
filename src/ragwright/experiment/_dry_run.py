"""Dry runs of sweeps: the real plan, with missing indexes built temporarily."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from ..core import ConfigError, RetrieveError, Row, text_hash
from ..flow import Flow, Forecast, Runner, embed
from ..index import IndexSpec, Store, View, Views, open_store
from ..project import Feed, Project, StoredDocuments, make_ingest, refuse_fetch
from ._evaluate import plan_evaluation
from ._study import Study
from ._sweep import study_rows, trial_options
from ._trials import Point, grid_points, random_points, variant_of

T = TypeVar("T")

_ALL = 100
"""Most answers of a study (trials times rows) for which a dry run goes through each of them."""

_PART, _LEAST = 40, 20
"""Beyond that, a dry run goes through one row in this many and one document in this many, and
through at least so many of each."""

_MARGIN = 0.2
"""Share by which a sample's low and high ends are widened."""

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


def _draw(items: Collection[T], complete: bool) -> tuple[tuple[T, ...], float]:
    """Draw items by a hash, or take all; and tell how many each of them stands for."""
    if complete or len(items) <= _LEAST:
        return tuple(items), 1.0
    count = max(_LEAST, round(len(items) / _PART))
    drawn = sorted(items, key=lambda item: text_hash(f"forecast\x00{getattr(item, 'id', item)}"))
    return tuple(drawn[:count]), len(items) / count


class _Beside(Views):
    """Views of two stores: the temporary one, if it has the index, else the project's."""

    def __init__(self, real: Views, aside: Store) -> None:
        super().__init__(aside)
        self._real = real
        self._aside = aside

    def current(self, index_spec: IndexSpec) -> View:
        if self._holds(index_spec.key):
            return super().current(index_spec)
        return self._real.current(index_spec)

    def answer(self, snapshot: str, ask: Callable[[View], T]) -> tuple[T, tuple[str, ...]]:
        if self._holds(snapshot.partition("@")[0]):
            return super().answer(snapshot, ask)
        return self._real.answer(snapshot, ask)

    def _holds(self, key: str) -> bool:
        return any(spec.key == key for spec in self._aside.index_specs())


def forecast_sweep(project: Project, study: Study) -> SweepForecast:
    """Calls and cost of a sweep; writes nothing and calls no model.

    Flows are followed as they would run. A missing index is built in a temporary folder: its
    keyword search is real, missing vectors are replaced by stand-ins, so that calls are counted on
    other hits than in the run.

    Raises:
        RetrieveError: The project itself has not been ingested.
    """
    if not project.store.holds(project.index_spec):
        project.target()  # raises with what is missing
        raise RetrieveError("nothing is indexed")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        aside = open_store(project.settings.store, folder)
        stack.callback(aside.close)
        dry_run = _DryRun(project, study, aside)
        stack.callback(dry_run.close)
        return dry_run.forecast()


class _DryRun:
    """A dry run in progress, on a copy of the project with models and runners of its own."""

    def __init__(self, project: Project, study: Study, aside: Store) -> None:
        self._project = project
        self._study = study
        self._aside = aside
        self._copy = Project(project.folder, project.settings, project.session)
        shared = {name: getattr(project, name) for name in ("replies", "runs", "budget", "store")}
        self._views = _Beside(project.views, aside)
        self._copy.__dict__.update(shared, views=self._views)
        self._in_flight: set[str] = set()
        self._current: dict[str, bool] = {}
        self._makers: dict[tuple[Runner, float], list[Maker]] = defaultdict(list)
        self._complete = True

    def close(self) -> None:
        for runner in self._copy.runners:
            runner.close()

    def forecast(self) -> SweepForecast:
        """Walk every trial on all rows, or on a sample of them if there are many."""
        study, options, how = self._study, self._study.options, trial_options(self._study)
        # Random points stand in for those that a search will suggest.
        points = [*grid_points(study)] if options.search == "grid" else random_points(study)
        rows = study_rows(self._project, study)
        self._complete = (len(points) + 1) * len(rows.rows) <= _ALL
        planned = plan_evaluation(self._variant({}), rows, options.measures, how)
        testset, invalid = planned.rows, 0
        groups = defaultdict[str, list[Row]](list)  # a persona's own model may cost far more
        for row in testset.rows:
            groups[self._project.persona(row.persona_name).model].append(row)
        drawn = [_draw(group, self._complete) for group in groups.values()]
        for point in ({}, *points):
            try:
                variant = self._variant(point)
            except ConfigError:
                invalid += 1
                continue
            for sample, times in drawn:
                part = replace(testset, rows=sample)
                plan = plan_evaluation(variant, part, planned.measures, how, sampled=True)
                self._makers[variant.runner, times] += [make for _, make in plan.job.items]
        return SweepForecast(
            1 + len(points) - invalid,
            invalid,
            len(testset.rows),
            self._missing_indexes,
            self._total(),
            self._notes(sum(len(sample) for sample, _ in drawn), len(testset.rows)),
        )

    def _variant(self, point: Point) -> Project:
        """A trial's project, with a temporary index if its own is missing or out of date."""
        variant = variant_of(self._copy, self._study, point)
        spec, model = variant.index_spec, variant.settings.embed.model
        if spec.embedder and not spec.dimensions:
            variant.models.known_dimensions[model] = _WIDTH
            variant.__dict__["index_spec"] = spec = replace(spec, dimensions=_WIDTH)
            probe = ["How long is a vector?"]
            self._makers[variant.runner, 1.0].append(lambda: embed(model, probe))
        if spec.key not in self._current:
            wanted = self._project.store.content_hashes(self._project.index_spec)
            self._current[spec.key] = variant.store.content_hashes(spec) == wanted
            if not self._current[spec.key]:
                self._build_aside(variant)
        if not self._current[spec.key]:
            variant.__dict__.update(store=self._aside, views=self._views)
        return variant

    def _build_aside(self, variant: Project) -> None:
        store, spec = self._project.store, self._project.index_spec
        names, times = self._documents
        reader = StoredDocuments(store, spec, frozenset(names))
        feeds = [Feed(source, (reader,)) for source in reader.sources]
        ingest = make_ingest(variant, store=store)
        makers = ingest.forecast_into(feeds, refuse_fetch, self._aside, self._in_flight)
        self._makers[variant.runner, times] += makers

    @cached_property
    def _documents(self) -> tuple[tuple[str, ...], float]:
        """The documents that missing indexes are built of, and how many each of them stands for."""
        return _draw(self._project.store.content_hashes(self._project.index_spec), self._complete)

    def _total(self) -> Forecast:
        """Forecast all flows; estimates from a sample have wider ends."""
        total = self._copy.runner.forecast([])
        for (runner, times), makers in self._makers.items():
            part = runner.forecast(makers)
            if times > 1:
                part = part.scaled(times, _MARGIN)
            total += part
        return total

    @property
    def _missing_indexes(self) -> int:
        return sum(not current for current in self._current.values())

    def _notes(self, walked: int, rows: int) -> tuple[str, ...]:
        notes, missing = [], self._missing_indexes
        if not self._complete:
            notes.append(
                f"estimated from {walked} of {rows} rows, every trial of them: low and high are "
                f"{_MARGIN:.0%} further out"
            )
        if missing and self._documents[1] > 1:
            count = len(self._documents[0])
            total = round(count * self._documents[1])
            notes.append(f"missing indexes are estimated from {count} of {total} documents")
        if self._study.options.search == "tpe":
            notes.append("tpe: random points replace those that results will suggest")
        if missing:
            notes.append(
                f"{missing} indexes would be built: prompts are estimated on stand-ins for their "
                "vectors"
            )
        return tuple(notes)
