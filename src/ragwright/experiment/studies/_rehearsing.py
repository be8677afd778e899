"""Dry runs of sweeps: the real plan, on indexes that are built aside where they are missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from ...core import ConfigError, Document, RetrieveError
from ...flow import Flow, Forecast, Runner, RunnerOptions, embed
from ...index import Store, View, Views, open_store
from ...measure import Measure
from ...models import Models
from ...project import Feed, Ingest, StoredDocuments, unfetched
from ...testsets import Testset
from ..evaluations import planned
from ._sampling import Trial, grid_points, random_points
from ._study import Study
from ._sweeping import study_rows, trial_how, variant_of

if TYPE_CHECKING:
    from ...project import Project

T = TypeVar("T")

_WIDTH = 8
"""Length of the vectors that stand in for those of a server that was never asked."""

Maker = Callable[[], Flow[Any]]


@dataclass(frozen=True, slots=True)
class SweepForecast:
    """What a sweep would do.

    Attributes:
        trials: Trials that would be run, the project as it stands included.
        invalid: Combinations of values that do not go together.
        rows: Rows of the tune split.
        indexes: Indexes that would be built.
        forecast: Calls, tokens, money and time, those of embedding the corpus included.
        notes: Where it is an estimate, and why.
    """

    trials: int
    invalid: int
    rows: int
    indexes: int
    forecast: Forecast
    notes: tuple[str, ...] = ()


class _Beside(Views):
    """Views of two stores: snapshots of the one that was built aside, and all others."""

    def __init__(self, real: Views, aside: Store) -> None:
        super().__init__(aside)
        self._real = real
        self._aside = aside

    def _here(self, snapshot: str) -> bool:
        key = snapshot.partition("@")[0]
        return any(pair.key == key for pair in self._aside.pairs())

    def answer(self, snapshot: str, ask: Callable[[View], T]) -> tuple[T, tuple[str, ...]]:
        """By the store that has the snapshot."""
        if self._here(snapshot):
            return super().answer(snapshot, ask)
        return self._real.answer(snapshot, ask)

    def rows(self, snapshot: str) -> int | None:
        """By the store that has the snapshot."""
        return super().rows(snapshot) if self._here(snapshot) else self._real.rows(snapshot)

    def document(self, document_id: str) -> Document | None:
        """Of the store that is there to stay: the other holds copies of its documents."""
        return self._real.document(document_id)


def forecast_sweep(project: Project, study: Study) -> SweepForecast:
    """What a sweep would call and cost; nothing is written and no model is called.

    Flows are walked as they would run. An index that is missing is built in a temporary folder:
    its keyword search is the real one, vectors that nobody has made yet are stood in for, so that
    calls are counted on other hits than those of the run.

    Raises:
        RetrieveError: The project itself has not been ingested.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        aside = open_store(project.settings.store, folder)
        stack.callback(aside.close)
        return _Rehearsal(project, study, aside, stack).forecast()


class _Rehearsal:
    """One dry run under way."""

    def __init__(self, project: Project, study: Study, aside: Store, stack: ExitStack) -> None:
        self._bench = project
        self._study = study
        self._aside = aside
        self._stack = stack
        self._families: list[tuple[Models, Project]] = []
        self._variants: dict[int, Project] = {}
        self._flying: set[str] = set()
        self._current: dict[str, bool] = {}
        self._unmeasured: set[str] = set()
        self._makers: dict[int, list[Maker]] = {}

    def forecast(self) -> SweepForecast:
        """Walk every trial."""
        project, options = self._bench, self._study.options
        if not project.store.holds(project.pair):
            project.target()  # says what is missing
            raise RetrieveError("nothing is indexed")
        testset = study_rows(project, self._study)
        base = self._variant(Trial(0, {}))
        _, measures, _ = planned(base, testset, options.measures, trial_how(self._study))
        trials, invalid = self._trials()
        for rows, of in self._rounds(trials, testset):
            for trial in of:
                self._plan(trial, rows, measures)
        found: Forecast | None = None
        for variant in self._runners():
            part = variant.runner.forecast(self._makers[id(variant.runner)])
            found = part if found is None else found + part
        assert found is not None
        return SweepForecast(
            len(trials), invalid, len(testset.rows), self._built, found, self._notes()
        )

    def _trials(self) -> tuple[list[Trial], int]:
        """Trials that can be run, with stand-ins for those a search will suggest; and how many
        cannot.
        """
        search = self._study.options.search
        points = grid_points(self._study) if search == "grid" else random_points(self._study)
        found, invalid = [Trial(0, {})], 0
        for number, point in enumerate(points, 1):
            trial = Trial(number, point)
            try:
                self._variant(trial)
            except ConfigError:
                invalid += 1
            else:
                found.append(trial)
        return found, invalid

    def _rounds(
        self, trials: Sequence[Trial], testset: Testset
    ) -> Iterator[tuple[Testset, Sequence[Trial]]]:
        """Which trials see which rows: with rungs any of them stand for those that go on."""
        options = self._study.options
        for rung in options.rungs:
            if rung < testset.questions:
                yield testset.subset(rung, options.seed), trials
                going = math.ceil(options.keep * (len(trials) - 1))
                trials = trials[: 1 + max(1, going)]
        yield testset, trials

    def _plan(self, trial: Trial, rows: Testset, measures: Sequence[Measure]) -> None:
        variant = self._variant(trial)
        _, _, work = planned(variant, rows, measures, trial_how(self._study))
        self._add(variant, [make for _, make in work.items])

    def _variant(self, trial: Trial) -> Project:
        """A trial's project, with an index aside where its own is missing or out of date."""
        known = self._variants.get(trial.number)
        if known is not None:
            return known
        made = variant_of(self._bench, self._study, trial)
        twin = next((twin for models, twin in self._families if models is made.models), None)
        twin = twin or self._family(made)
        made.models = twin.models
        made.__dict__["runner"] = twin.runner
        pair, model = made.pair, made.settings.embed.model
        if pair.embedder and not pair.dimensions:
            made.models.known_dimensions[model] = _WIDTH
            made.__dict__["pair"] = replace(pair, dimensions=_WIDTH)
            if model not in self._unmeasured:
                self._unmeasured.add(model)
                self._add(made, [lambda: embed(model, ["How long is a vector?"])])
        if not self._is_current(made):
            made.__dict__.update(store=self._aside, views=twin.views)
        self._variants[trial.number] = made
        return made

    def _is_current(self, made: Project) -> bool:
        """True where the index holds what the project's own holds; else it is built aside."""
        key = made.pair.key
        if key not in self._current:
            project = self._bench
            wanted = project.store.content_hashes(project.pair)
            self._current[key] = made.store.content_hashes(made.pair) == wanted
            if not self._current[key]:
                self._build(made)
        return self._current[key]

    def _family(self, made: Project) -> Project:
        """A project that rehearses for all whose requests mean the same as this one's."""
        settings, session = made.settings, self._bench.session
        twin = made.variant(settings)
        twin.models = Models(settings.models, settings.embed, self._bench.folder.root)
        twin.models.known_dimensions.update(made.models.known_dimensions)
        twin.__dict__["views"] = _Beside(made.views, self._aside)
        options = RunnerOptions(
            concurrency=settings.budget.concurrency,
            jobs=session.jobs,
            reuse=session.reuse,
            attempt=session.attempt,
        )
        twin.__dict__["runner"] = Runner(
            twin.routes(twin.views), options, replies=self._bench.replies
        )
        self._stack.callback(twin.runner.close)
        self._families.append((made.models, twin))
        return twin

    def _add(self, made: Project, makers: Sequence[Maker]) -> None:
        self._makers.setdefault(id(made.runner), []).extend(makers)

    def _runners(self) -> Iterator[Project]:
        for _, twin in self._families:
            if id(twin.runner) in self._makers:
                yield twin

    def _build(self, made: Project) -> None:
        project, model = self._bench, made.settings.embed.model
        local = bool(model) and made.models.is_local(model)
        reader = StoredDocuments(project.store, project.pair)
        feeds = [Feed(source, (reader,)) for source in reader.sources]
        ingest = Ingest(project.store, made.pair, made.chunker, (model, local), made.runner, None)
        self._add(made, ingest.rehearse(feeds, unfetched, self._aside, self._flying))

    @property
    def _built(self) -> int:
        """Indexes that are missing or out of date."""
        return sum(not current for current in self._current.values())

    def _notes(self) -> tuple[str, ...]:
        options, notes = self._study.options, []
        if options.search == "tpe":
            notes.append("tpe: random points replace those that results will suggest")
        if options.rungs:
            notes.append("rungs: which trials continue is not known yet, so any are counted")
        if self._built:
            notes.append(
                f"{self._built} indexes would be built: prompts are estimated on stand-ins for "
                "their vectors"
            )
        return tuple(notes)
