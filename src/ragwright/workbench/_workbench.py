"""The facade: the commands as methods of one class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from .. import drafting, experiment, jobs, report, retrieve, testsets
from ..core import Answer, Document, Filter
from ..drafting import (
    DraftBatch,
    Drafting,
    DraftRequest,
    OutputQuery,
    Outputs,
    OutputSample,
    ProjectRecords,
    SampledOutputs,
)
from ..experiment import (
    Evaluation,
    EvaluationOptions,
    KnownRun,
    OnForecast,
    OnResult,
    Questions,
    RunDiagnosis,
)
from ..flow import Forecast, Progress, RunSummary, TraceEntry
from ..jobs import (
    CheckLine,
    DriftReport,
    Jobs,
    MeasureReport,
    PromotionGate,
    PromotionOptions,
    PromotionResult,
)
from ..measure import Comparisons, GateOutcome, Measure
from ..project import (
    Change,
    Check,
    IngestForecast,
    IngestProgress,
    IngestReport,
    ListedModel,
    Project,
    Session,
    configuration_of,
    forecast_ingest,
    ingest_sources,
    keep_configuration,
    list_models,
)
from ..report import Report
from ..retrieve import Explanation, Retrieved
from ..testsets import SuiteOptions, Synthesis, SynthesisOptions, Testset, TestsetReview
from ._asking import AskOptions, AsyncVerbs, TuningVerbs, check_filters, doctor


class ErasingVerbs:
    """The verbs of a workbench that erase; each is noted in the audit log, if one is kept."""

    project: Project

    def clear_replies(self) -> int:
        """Delete every stored reply; returns their number, 0 if their file was damaged."""
        return self.project.clear_replies()

    def forget(self, document_id: str) -> Mapping[str, int]:
        """Purge a document from all that is stored; see ``ragwright.drafting.forget_document``."""
        with jobs.record_erasure(self.project, "forget document", document_id):
            return drafting.forget_document(self.project, document_id)

    def forget_tenant(self, scope: str) -> Mapping[str, int]:
        """Purge what was made in a visibility scope; see ``ragwright.drafting.forget_tenant``."""
        with jobs.record_erasure(self.project, "forget tenant", scope):
            return drafting.forget_tenant(self.project, scope)

    def forget_person(self, person: str, *, dry_run: bool = False) -> Mapping[str, int]:
        """Purge what is kept of a key or person; see ``ragwright.drafting.forget_person``.

        With ``dry_run`` nothing is changed, and the counts are those of a purge.
        """
        if dry_run:
            return drafting.forget_person(self.project, person, dry_run=True)
        with jobs.record_erasure(self.project, "forget person", person):
            return drafting.forget_person(self.project, person)


class Workbench(TuningVerbs, AsyncVerbs, ErasingVerbs):
    """An opened project folder. Use it as a context manager, or call :meth:`close`.

    Nothing is opened before it is needed: reading settings touches neither store nor model.

    Args:
        project: The opened project; :meth:`open` opens one by its folder.

    Attributes:
        project: Settings, store, runner and runs behind the methods, for programs that need more.
    """

    def __init__(self, project: Project) -> None:
        self.project = project

    @classmethod
    def open(cls, folder: str | Path = ".", session: Session | None = None) -> Self:
        """The project in a folder.

        Raises:
            ConfigError: There is none, or its file is wrong (with file and line); or the served
                configuration is requested and there is none.
        """
        return cls(Project.open(folder, session))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.project.__exit__(kind)

    def close(self) -> None:
        """Finish calls in flight and close the store; safe to call twice."""
        self.project.close()

    @property
    def progress(self) -> Progress:
        """Counters of the requests under way."""
        return self.project.runner.progress

    def doctor(
        self, *, ask_models: bool = False, check_line: CheckLine | None = None
    ) -> list[Check]:
        """Report what is configured, what is missing and what costs money.

        ``ask_models`` also asks each server for its list of models and opens each local model; no
        reply is paid for. ``check_line`` validates the command lines of jobs.
        """
        return doctor(self.project, ask_models=ask_models, check_line=check_line)

    def list_models(self) -> list[ListedModel]:
        """The models that the project names, and those in the hub's cache."""
        return list_models(self.project)

    # -- building --------------------------------------------------------------------------

    def ingest(
        self,
        *sources: str | Path,
        prune: bool = False,
        embed_again: bool = False,
        engine: str = "",
        on_start: Callable[[IngestProgress], None] | None = None,
    ) -> IngestReport:
        """Read sources into the index; unchanged documents cost nothing.

        Args:
            sources: Files, folders, addresses; those of the project file if none are given.
            prune: Remove documents of these sources that are no longer there.
            embed_again: Embed every text of these sources, even if its vector is stored; see
                :func:`ragwright.project.ingest_sources`.
            engine: ``local`` or ``ray``; that of the settings by default.
            on_start: Gets the counters, for a progress bar.

        Raises:
            ConfigError: There is nothing to ingest, or no engine has this name.
            EngineError: The cluster fails; what was written before stays.
            ModelError: The embedding model fails; what was written before stays.
        """
        return ingest_sources(
            self.project,
            sources,
            prune=prune,
            embed_again=embed_again,
            engine=engine,
            on_start=on_start,
        )

    def forecast_ingest(self, *sources: str | Path) -> IngestForecast:
        """Forecast what an ingest would write, embed and cost; write nothing, call no model."""
        return forecast_ingest(self.project, sources)

    def documents(self) -> Iterator[Document]:
        """Iterate over the documents of the index by id, one in memory at a time."""
        return self.project.documents()

    @property
    def records(self) -> ProjectRecords:
        """The tables and documents declared in the folder ``records``."""
        return drafting.ProjectRecords(self.project)

    # -- asking ----------------------------------------------------------------------------

    def retrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        filters: Filter | str | Iterable[Filter | str] = (),
        scope: str = "",
        trace: list[TraceEntry] | None = None,
    ) -> Retrieved:
        """The k best chunks for a query (``retrieve.top_k`` if k is None).

        ``filters`` are hard filters beside the project's own, such as ``year=2020..``. ``scope``
        limits who may see the replies of models; ``trace`` gets an entry for each request.

        Raises:
            ConfigError: The query is not a text, or k not a whole number from 1.
            FilterError: A filter cannot be read.
        """
        project = self.project
        with project.work.working("retrieve"):
            searching = self.retrieve_flow(query, k, AskOptions(filters=check_filters(filters)))
            retrieved = project.runner.run(searching, scope=scope, trace=trace)
        return replace(
            retrieved, notes=(*project.partial_note(), *retrieved.notes, *project.replies.notes)
        )

    def forecast_retrieve(self, query: str, k: int | None = None) -> Forecast:
        """Forecast the calls and cost of :meth:`retrieve`, without calling any model."""
        return self.project.runner.forecast([lambda: self.retrieve_flow(query, k)])

    def explain(self, retrieved: Retrieved, *, scope: str = "") -> Explanation:
        """Explain the hits: terms, tokens, weights, relaxation levels.

        Of the first hits of a dense search the sentences are embedded, to show the nearest ones;
        ``scope`` limits who may see their vectors.
        """
        project = self.project
        model = project.settings.embed.model
        # Not target(): it opens the present snapshot, which may differ from the searched one.
        tokenizer = project.models.tokenizer(model) if model else None
        explanation = retrieve.explain(retrieved, project.analyzer, tokenizer)
        if not model:
            return explanation
        with project.work.working("retrieve"):
            sentences = retrieve.nearest_sentences(retrieved, model)
            nearest = project.runner.run(sentences, scope=scope)
        return replace(explanation, nearest=nearest)

    def ask(self, question: str, persona: str = "", options: AskOptions | None = None) -> Answer:
        """Answer a question for one persona (``answer.persona`` by default), with citations."""
        return self.ask_all(question, [persona], options)[0]

    def ask_all(
        self, question: str, personas: Sequence[str], options: AskOptions | None = None
    ) -> list[Answer]:
        """Answer a question for several personas side by side, in their order.

        Without names: for the persona of the project.
        """
        project, asking = self.project, options or AskOptions()
        with project.work.working("ask"):
            answering = self.ask_flow(question, personas, asking)
            first, *others = project.runner.run(
                answering,
                scope=asking.scope,
                sink=asking.sink,
                trace=asking.trace,
                sources=asking.sources,
            )
        return [replace(first, notes=(*first.notes, *project.replies.notes)), *others]

    def forecast_ask(self, question: str, personas: Sequence[str]) -> Forecast:
        """Forecast the calls and cost of :meth:`ask_all`, without calling any model."""
        return self.project.runner.forecast([lambda: self.ask_flow(question, personas)])

    # -- drafting --------------------------------------------------------------------------

    def draft(self, request: DraftRequest, options: Drafting | None = None) -> DraftBatch:
        """Write texts in a client's style, by one or several models; store them as outputs.

        Raises:
            ConfigError: No chat model is configured.
            PromptError: An unknown name, with the nearest; fewer records than examples.
            ModelError: Every model failed; one among several is a note.
        """
        return drafting.run_drafts(self.project, request, options or drafting.Drafting())

    def forecast_draft(self, request: DraftRequest, options: Drafting | None = None) -> Forecast:
        """Forecast the calls and cost of drafting, without calling any model."""
        return drafting.forecast_drafts(self.project, request, options or drafting.Drafting())

    @property
    def outputs(self) -> Outputs:
        """All drafted texts and their prompts."""
        return drafting.project_outputs(self.project)

    def evaluate_outputs(
        self,
        measures: str | Sequence[Measure],
        sampling: OutputSample | None = None,
        options: EvaluationOptions | None = None,
        *,
        told: OnForecast | None = None,
        each: OnResult | None = None,
    ) -> tuple[Evaluation, RunSummary, SampledOutputs]:
        """Score a sample of the stored outputs as a new run; nothing is generated."""
        return experiment.evaluate_outputs(
            self.project, measures, sampling, options, on_forecast=told, each=each
        )

    def forecast_outputs(
        self, measures: str | Sequence[Measure], sampling: OutputSample
    ) -> Forecast:
        """Forecast the calls and cost of :meth:`evaluate_outputs`."""
        return experiment.forecast_outputs(self.project, measures, sampling)

    def measure_served(self, retry_errors: bool = False, most: int | None = None) -> MeasureReport:
        """Score the configured share of the served answers, within the budget of the day."""
        return jobs.measure_served(self.project, retry_errors, most)

    def drift(self, scope: str | None = None) -> DriftReport:
        """Compare the current served answers with a reference period; of all tenants if None."""
        return jobs.compare_served(self.project, scope)

    # -- test sets -------------------------------------------------------------------------

    def synth(self, options: SynthesisOptions | None = None) -> tuple[Synthesis, RunSummary | None]:
        """Make a testset from the indexed documents; see :func:`ragwright.testsets.synthesize`."""
        return testsets.synthesize(self.project, options or testsets.SynthesisOptions())

    def forecast_synth(self, options: SynthesisOptions | None = None) -> Forecast:
        """Forecast the calls and cost of making a testset."""
        return testsets.forecast_synthesis(self.project, options or testsets.SynthesisOptions())

    def suite(self, testset: str | Testset, options: SuiteOptions | None = None) -> Testset:
        """Capability suites from the documents; see :func:`ragwright.testsets.make_suite`."""
        return testsets.make_suite(self.project, testset, options)

    def evaluate(
        self,
        testset: Questions,
        measures: str | Sequence[Measure] = "",
        options: EvaluationOptions | None = None,
        *,
        system: object = None,
    ) -> tuple[Evaluation, RunSummary]:
        """Run a testset through the project and score it; returns the outcome of the run.

        ``testset`` is an address, a :class:`ragwright.testsets.Testset`, or rows: objects, a data
        frame, a data set. Without ``measures`` those that suit are used.

        Retrieves for every row and answers it for its persona, as `ragwright eval` does; with
        ``EvaluationOptions(answers=False)`` it only scores the ranking (``--retrieval-only``). Rows
        are stored as they end; ``options.resume`` continues an unfinished run of the same testset,
        settings and index snapshot. Rows of capability suites are answered from their own passages,
        and need no index.

        With ``system`` the questions go to that system instead, and no index is needed: a function
        of the question, an object of LangChain or LlamaIndex, an address, or
        :class:`ragwright.models.SystemOptions`; see :func:`ragwright.models.reply_of` for what it
        may return. ``options.answers`` does not matter then.
        """
        project = self.project
        chosen = options or experiment.EvaluationOptions(seed=project.session.seed)
        if system is not None:
            return experiment.evaluate_system(project, testset, measures, chosen, system)
        # as at the first row: files may change during the run
        taken = configuration_of(project.folder, project.settings)
        testset = testset if isinstance(testset, str) else experiment.questions_in(testset)
        evaluation, summary = experiment.evaluate_testset(project, testset, measures, chosen)
        keep_configuration(project.runs, summary.run, taken)
        return evaluation, summary

    def forecast_evaluate(
        self,
        testset: str | Testset,
        measures: str | Sequence[Measure],
        options: EvaluationOptions | None = None,
        *,
        system: object = None,
    ) -> Forecast:
        """Forecast the calls and cost of an evaluation, without calling any model or system."""
        if system is not None:
            return experiment.forecast_system(self.project, testset, measures, system)
        chosen = options or experiment.EvaluationOptions()
        return experiment.forecast_testset(self.project, testset, measures, chosen)

    def score(
        self,
        rows: str | Testset,
        measures: str | Sequence[Measure],
        options: EvaluationOptions | None = None,
        *,
        told: OnForecast | None = None,
        each: OnResult | None = None,
    ) -> tuple[Evaluation, RunSummary]:
        """Score rows as they are: those of a file, or the answers of a stored run.

        Nothing is generated; rows are stored as they end. ``told`` gets the forecast of calls and
        cost before the first call, if a measure uses a model. ``each`` gets every result instead of
        the evaluation, which then holds only summaries: any number of rows of a file in bounded
        memory.
        """
        chosen = options or experiment.EvaluationOptions(seed=self.project.session.seed)
        return experiment.score_stored(
            self.project, rows, measures, chosen, on_forecast=told, each=each
        )

    def forecast_score(self, rows: str | Testset, measures: str) -> Forecast:
        """Forecast the calls and cost of scoring rows, without calling any model."""
        return experiment.forecast_stored(self.project, rows, measures)

    def results(self, run: str = "latest") -> Evaluation:
        """The evaluation of a stored run: ``latest``, its name, or the beginning of its name."""
        return experiment.load_evaluation(self.project.runs, run, self.project.session.seed)

    def diagnose_run(self, run: str = "latest", by: Sequence[str] = ()) -> RunDiagnosis:
        """Split the rows of a stored run, also of another system, by retrieval and answering.

        ``by`` adds the same for each value of these fields.
        """
        return experiment.diagnose_run(self.results(run), self.project.settings.judge.language, by)

    def list_runs(self) -> tuple[KnownRun, ...]:
        """Stored evaluations, newest first."""
        return experiment.list_evaluations(self.project.runs)

    def compare(self, a: str, b: str = "latest", *, cluster: str = "") -> Comparisons:
        """Compare run b with run a, row by row; either may be a file of scores."""
        first, second = self._evaluations(a, b)
        clusters = experiment.clusters_of_results([*first.results, *second.results], cluster)
        return experiment.compare_evaluations(
            first, second, seed=self.project.session.seed, clusters=clusters
        )

    def gate(
        self,
        run: str,
        rules: Sequence[str],
        *,
        baseline: str = "",
        options: PromotionGate | None = None,
    ) -> GateOutcome:
        """Check a run against rules such as ``nDCG@10>=0.7``; see
        ``ragwright.jobs.gate_evaluation``.
        """
        evaluation, *others = self._evaluations(run, *([baseline] if baseline else []))
        root = self.project.folder.root
        against = others[0] if others else None
        return jobs.gate_evaluation(root, evaluation, rules, options, against)

    def review(self, testset: str | Path, by: str = "") -> TestsetReview:
        """A testset under review: ``review.open`` are the rows to decide on, ``review.decide``
        accepts, edits or rejects one. ``by`` is the reviewer, by default this machine's user.
        """
        return testsets.open_review(self.project.folder, str(testset), by)

    def collect_feedback(self, scope: str = "") -> Path:
        """Write what readers rated or corrected as candidate rows into a testset; see
        :func:`ragwright.drafting.collect_feedback`.
        """
        return drafting.collect_feedback(self.project, scope)

    def review_answers(
        self, runs: Sequence[str], measures: str, path: str | Path, *, seed: int = 0
    ) -> tuple[int, Path]:
        """Write a sheet for people to score the answers of runs without knowing the system.

        See :func:`ragwright.experiment.write_blind_sheet`.
        """
        return experiment.write_blind_sheet(
            self.project.folder.root, runs, measures, Path(path), seed=seed
        )

    def _evaluations(self, *names: str) -> list[Evaluation]:
        return experiment.evaluations_by_name(self.project, names)

    # -- showing and serving ---------------------------------------------------------------

    def report(self, *runs: str, seed: int = 0) -> Report:
        """A report on a run, two runs or a study; ``latest`` by default."""
        folder, stored = self.project.folder, self.project.runs
        subject = report.report_subject(folder, stored, runs or ("latest",), seed=seed)
        return report.Report(subject)

    def promote(
        self, run: str, rules: Sequence[str] = (), options: PromotionOptions | None = None
    ) -> PromotionResult:
        """Serve the configuration of a run if the gate passes."""
        promoted = jobs.promote(self.project, run, rules, options)
        if promoted.changed:
            jobs.record_done(self.project, "promoted", "promote", run)
        return promoted

    def promote_back(self, reason: str, by: str = "") -> Change:
        """Serve the previous configuration again."""
        change = jobs.promote_back(self.project, reason, by)
        jobs.record_done(self.project, "promoted", "promote --back", change.run)
        return change

    def export_outputs(self, query: OutputQuery, path: Path) -> int:
        """Write stored texts and prompts to a file; returns how many."""
        jobs.record_done(self.project, "exported", "outputs export", path.name)
        return drafting.export_outputs(self.outputs, query, path)

    def jobs(self, check_line: CheckLine | None = None) -> Jobs:
        """The jobs of the project."""
        return jobs.Jobs(self.project.folder.root, check_line)
