"""Options of asking, and the awaited verbs: the same flows, driven from another event loop."""

from __future__ import annotations

import contextlib
import importlib.util
import operator
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .. import (
    answer,
    audit,
    drafting,
    experiment,
    jobs,
    ledger,
    measure,
    project as opened,
    retrieve,
    training,
)
from ..answer import AskPlan
from ..audit import Audit, AuditPlan
from ..core import (
    Answer,
    ConfigError,
    Filter,
    Hit,
    RagwrightError,
    addition_faults,
    additions_of_others,
    narrows,
    person_source,
    rights_first,
)
from ..experiment import (
    AblationOptions,
    AblationResult,
    BaselineOptions,
    BaselineResult,
    ConfirmOptions,
    ConfirmResult,
    Diagnosis,
    DiagnosisOptions,
    GridOptions,
    KnownRun,
    PersonaModelGrid,
    PromiseOptions,
    PromiseResult,
    Study,
    SweepForecast,
    SweepOptions,
    SweepResult,
)
from ..flow import Flow, Forecast, Message, RunSummary, TraceEntry
from ..jobs import CheckLine
from ..measure import Measure
from ..project import Check, Project
from ..retrieve import Retrieved, RetrieveOptions, SoftFilterOptions, Target
from ..testsets import Testset
from ..training import ModelTuneOptions, TuneResult, TutorialOptions, TutorialTable

if TYPE_CHECKING:
    import asyncio


@dataclass(frozen=True, slots=True)
class AskOptions:
    """Options of a question: history, filters, permissions, and where the answer is shown.

    Attributes:
        history: Earlier turns, oldest first; the question is then made to stand alone.
        scope: Who may see the replies (tenant, permissions).
        person: Name of the key or person who asks, with which the replies are forgotten.
        sink: Gets the pieces of an answer that is streamed.
        trace: Gets an entry for each request.
        filters: Hard filters in addition to the project's own. With a filter that is not a right to
            read, a question is sent to no database but a spreadsheet: others cannot be filtered.
        soft: Soft filters in addition to the project's own.
        target: State of the index to search; None for the newest.
        on_context: Gets the passages that go into the prompt, before the model is asked; called
            on the runner's thread, so it must be quick.
    """

    history: tuple[Message, ...] = ()
    scope: str = ""
    person: str = ""
    sink: Callable[[str], None] | None = None
    trace: list[TraceEntry] | None = None
    filters: tuple[Filter, ...] = ()
    soft: tuple[SoftFilterOptions, ...] = ()
    target: Target | None = None
    on_context: Callable[[Sequence[Hit]], None] | None = None

    @property
    def quotes_answers(self) -> bool:
        """True if earlier answers, which may quote any document, are part of the prompt."""
        return any(turn.role == "assistant" for turn in self.history)

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources of replies that are no passages: the person, and earlier answers."""
        person = (person_source(self.person),) if self.person else ()
        return (*person, answer.CONVERSATION) if self.quotes_answers else person

    def search_options(self, options: RetrieveOptions) -> RetrieveOptions:
        """Options of a search, with these filters added."""
        if not (self.filters or self.soft):
            return options
        filters, soft = rights_first(options.filters + self.filters), options.soft + self.soft
        return replace(options, filters=filters, soft=soft)

    def narrow_plan(self, plan: AskPlan) -> AskPlan:
        """A plan, with these filters added."""
        if self.on_context is not None:
            plan = replace(plan, on_context=self.on_context)
        # Only spreadsheets can be filtered; other databases go if a filter is not a right to read.
        databases = tuple(d for d in plan.databases if d.sheets or not narrows(self.filters))
        return replace(plan, retrieve=self.search_options(plan.retrieve), databases=databases)


def check_text(value: object, name: str) -> str:
    """A question, a query or the name of a persona.

    Raises:
        ConfigError: It is not a text.
    """
    if isinstance(value, str):
        return value
    raise ConfigError(
        f"the {name} must be a text, not {_shown_value(value)}",
        where=name,
        hint=f'give it as a string, for example "{_EXAMPLES.get(name, _QUESTION)}"',
    )


def check_count(value: object, name: str) -> int | None:
    """A number of passages, or None for the number in the settings.

    Raises:
        ConfigError: It is not a whole number from 1.
    """
    if value is None:
        return None
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        count = operator.index(value)
        if count >= 1:
            return count
    raise ConfigError(
        f"{name} must be a whole number from 1, not {_shown_value(value)}",
        where=name,
        hint=f"write {name}=5, or leave it out for the number in retrieve.top_k",
    )


def check_filters(filters: Filter | str | Iterable[Filter | str]) -> tuple[Filter, ...]:
    """Hard filters: written as on the command line (``year=2020..``), or made by `parse_filter`.

    Raises:
        FilterError: A text is not a filter.
        ConfigError: An item is neither a text nor a filter.
    """
    items = (filters,) if isinstance(filters, str | Filter) else tuple(filters)
    wrong = next((item for item in items if not isinstance(item, str | Filter)), None)
    if wrong is not None:
        raise ConfigError(
            f"a filter must be a text, not {_shown_value(wrong)}",
            where="filters",
            hint='write filters="year=2020..", or several in a list',
        )
    return tuple(retrieve.parse_filter(f) if isinstance(f, str) else f for f in items)


_QUESTION = "How often must the brake fluid be changed?"
_EXAMPLES = {"persona": "engineer"}


def _shown_value(value: object) -> str:
    """A wrong value in an error, with its type."""
    if value is None:
        return "None"
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:40] + '…'} ({type(value).__name__})"


class AnswerStream:
    """The pieces of an answer as they are written; an async iterator of texts.

    Attributes:
        context: Passages of the prompt, known before the first piece; None before.
        answer: The whole answer with its citations, known after the last piece; None before.
    """

    def __init__(
        self, start: Callable[[AskOptions], asyncio.Task[Answer]], options: AskOptions
    ) -> None:
        self.context: Sequence[Hit] | None = None
        self.answer: Answer | None = None
        self._start = start
        self._options = options

    def __aiter__(self) -> AsyncGenerator[str]:
        """The pieces; an answer that no model writes is one piece.

        Raises:
            RagwrightError: What answering failed with.
        """
        return self._pieces_as_written()

    async def _pieces_as_written(self) -> AsyncGenerator[str]:
        # Late: it takes longer to load than the rest of what opening a project needs.
        import asyncio

        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue()

        def put(piece: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # the reader's loop has ended
                loop.call_soon_threadsafe(queue.put_nowait, piece)

        def keep_context(hits: Sequence[Hit]) -> None:
            self.context = tuple(hits)

        task = self._start(replace(self._options, sink=put, on_context=keep_context))
        task.add_done_callback(lambda _: put(None))
        streamed = False
        try:
            while (piece := await queue.get()) is not None:
                streamed = True
                yield piece
            self.answer = await task
        finally:
            if not task.done():  # the reader went away
                task.cancel()
                await asyncio.wait([task])
        if self.context is None:
            self.context = self.answer.hits
        if not streamed:
            yield self.answer.text


class AsyncVerbs:
    """Asking and retrieving from within an event loop: a server, a notebook."""

    project: Project

    def ask_flow(
        self, question: str, personas: Sequence[str], options: AskOptions | None = None
    ) -> Flow[list[Answer]]:
        """The flow behind ``ask_all``: condense, retrieve once, answer for each persona."""
        question, asking = check_text(question, "question"), options or AskOptions()
        names = [check_text(name or "", "persona") for name in personas or ("",)]
        chosen = [self.project.persona(name) for name in names]
        # A flow streams at most one reply.
        plan = asking.narrow_plan(self.project.plan(asking.history))
        plan = replace(plan, stream=asking.sink is not None and len(chosen) <= 1)
        return answer.ask(question, chosen, asking.target or self.project.target(), plan)

    def retrieve_flow(
        self, query: str, k: int | None = None, options: AskOptions | None = None
    ) -> Flow[Retrieved]:
        """The flow behind ``retrieve``."""
        query, k, asking = check_text(query, "query"), check_count(k, "k"), options or AskOptions()
        searching = asking.search_options(self.project.settings.retrieve)
        searching = searching if k is None else replace(searching, top_k=k)
        return retrieve.retrieve(query, asking.target or self.project.target(), searching)

    async def aask(
        self, question: str, persona: str = "", options: AskOptions | None = None
    ) -> Answer:
        """As ``ask``, awaited; cancelling it cancels calls that nobody else waits for."""
        return (await self.aask_all(question, [persona], options))[0]

    async def aask_all(
        self, question: str, personas: Sequence[str], options: AskOptions | None = None
    ) -> list[Answer]:
        """As ``ask_all``, awaited."""
        asking = options or AskOptions()
        project = self.project
        first, *others = await project.runner.arun(
            partial(self.ask_flow, question, personas, asking),  # reads settings, opens the index
            scope=asking.scope,
            sink=asking.sink,
            trace=asking.trace,
            sources=asking.sources,
        )
        return [replace(first, notes=(*first.notes, *project.replies.notes)), *others]

    def astream(
        self, question: str, persona: str = "", options: AskOptions | None = None
    ) -> AnswerStream:
        """The pieces of an answer as they are written: ``async for piece in wb.astream(...)``.

        The stream's ``answer`` holds the whole afterwards. A reader that stops early ends the call.
        """
        import asyncio

        def start(asking: AskOptions) -> asyncio.Task[Answer]:
            return asyncio.create_task(self.aask(question, persona, asking))

        return AnswerStream(start, options or AskOptions())

    async def aretrieve(
        self, query: str, k: int | None = None, options: AskOptions | None = None
    ) -> Retrieved:
        """As ``retrieve``, awaited."""
        asking = options or AskOptions()
        project = self.project
        flow = partial(self.retrieve_flow, query, k, asking)
        retrieval = await project.runner.arun(
            flow, scope=asking.scope, trace=asking.trace, sources=asking.sources
        )
        return replace(
            retrieval, notes=(*project.partial_note(), *retrieval.notes, *project.replies.notes)
        )


class TuningVerbs:
    """Studies, training, ablation and diagnosis of an opened project."""

    project: Project

    def sweep(self, study: Study | str | Path, options: SweepOptions | None = None) -> SweepResult:
        """Run a study, or the study of a file; see :func:`ragwright.experiment.run_sweep`."""
        return experiment.run_sweep(self.project, self._study_of(study), options)

    def forecast_sweep(self, study: Study | str | Path) -> SweepForecast:
        """Forecast what a sweep would build, call and cost."""
        return experiment.forecast_sweep(self.project, self._study_of(study))

    def list_sweeps(self) -> tuple[KnownRun, ...]:
        """Stored sweeps, newest first."""
        return experiment.list_sweeps(self.project.runs)

    def _study_of(self, study: Study | str | Path) -> Study:
        if isinstance(study, str | Path):
            return experiment.read_study(self.project, Path(study))
        return study

    def confirm(
        self,
        sweep: str = "latest",
        options: ConfirmOptions | None = None,
        told: Callable[[str], None] | None = None,
    ) -> ConfirmResult:
        """Compare the winner of a sweep with the current settings on held-out questions, once."""
        return experiment.confirm(self.project, sweep, options, told)

    def forecast_confirm(
        self,
        sweep: str = "latest",
        options: ConfirmOptions | None = None,
        told: Callable[[str], None] | None = None,
    ) -> Forecast:
        """Forecast the calls and cost of :meth:`confirm`; the confirm split stays closed."""
        return experiment.forecast_confirm(self.project, sweep, options, told)

    def promise(
        self, options: PromiseOptions, told: Callable[[str], None] | None = None
    ) -> PromiseResult:
        """Certify a risk of wrong answers; see :func:`ragwright.experiment.make_promise`."""
        return experiment.make_promise(self.project, options, told)

    def forecast_promise(
        self, options: PromiseOptions, told: Callable[[str], None] | None = None
    ) -> Forecast:
        """Forecast the calls and cost of :meth:`promise`; the confirm split stays closed."""
        return experiment.forecast_promise(self.project, options, told)

    def tune_embedder(
        self, testset: str = "", options: ModelTuneOptions | None = None
    ) -> TuneResult:
        """Fine-tune the embedding model; see :func:`ragwright.training.tune_embedder`."""
        return training.tune_embedder(self.project, testset, options)

    def tune_reranker(
        self, testset: str = "", options: ModelTuneOptions | None = None
    ) -> TuneResult:
        """Train a cross-encoder; see :func:`ragwright.training.tune_reranker`."""
        return training.tune_reranker(self.project, testset, options)

    def tutorial(self, options: TutorialOptions | None = None) -> TutorialTable:
        """Base and tuned, each with and without reranking, on the same questions."""
        return training.run_tutorial(self.project, options)

    def baseline(
        self, testset: str | Testset, options: BaselineOptions | None = None
    ) -> BaselineResult:
        """Compare the distances of answers with those of a baseline of question-answer pairs."""
        return experiment.run_baseline(self.project, testset, options)

    def list_baselines(self, most: int | None = None) -> tuple[BaselineResult, ...]:
        """Stored baselines with their pairs, newest first; at most so many."""
        return experiment.load_baselines(self.project.runs, most)

    def forecast_baseline(
        self, testset: str | Testset, options: BaselineOptions | None = None
    ) -> tuple[Forecast, tuple[str, ...]]:
        """Forecast the calls and cost of :meth:`baseline`; notes name what is not counted."""
        return experiment.forecast_baseline(self.project, testset, options)

    def ablate(
        self, testset: str, measures: str, options: AblationOptions | None = None
    ) -> AblationResult:
        """Measure the effect of each part of the prompt."""
        chosen = options or experiment.AblationOptions()
        return experiment.run_ablation(self.project, testset, measures, chosen)

    def forecast_ablate(
        self, testset: str, measures: str, options: AblationOptions | None = None
    ) -> SweepForecast:
        """Forecast the calls and cost of an ablation."""
        chosen = options or experiment.AblationOptions()
        return experiment.forecast_ablation(self.project, testset, measures, chosen)

    def diagnose(
        self,
        testset: Testset,
        measures: str | Sequence[Measure],
        options: DiagnosisOptions | None = None,
    ) -> tuple[Diagnosis, RunSummary]:
        """Replace each stage by its oracle in turn, and report which stage loses points."""
        chosen = options or experiment.DiagnosisOptions()
        return experiment.run_diagnosis(self.project, testset, measures, chosen)

    def forecast_diagnose(
        self,
        testset: Testset,
        measures: str | Sequence[Measure],
        options: DiagnosisOptions | None = None,
    ) -> Forecast:
        """Forecast the calls and cost of a diagnosis."""
        chosen = options or experiment.DiagnosisOptions()
        return experiment.forecast_diagnosis(self.project, testset, measures, chosen)

    def compare_generators(
        self, testset: Testset, measures: str | Sequence[Measure], options: GridOptions
    ) -> tuple[PersonaModelGrid, RunSummary]:
        """Answer every question for every persona by every generator, and compare them in pairs."""
        return experiment.compare_generators(self.project, testset, measures, options)

    def forecast_generators(
        self, testset: Testset, measures: str | Sequence[Measure], options: GridOptions
    ) -> Forecast:
        """Forecast the calls and cost of comparing generators."""
        return experiment.forecast_generators(self.project, testset, measures, options)

    def audit(self, options: AuditPlan | None = None) -> tuple[Audit, RunSummary]:
        """Find what is wrong with the documents; see :func:`ragwright.audit.run_audit`."""
        return audit.run_audit(self.project, options or audit.AuditPlan())

    def forecast_audit(self, options: AuditPlan | None = None) -> Forecast:
        """Forecast the calls and cost of an audit, without calling any model."""
        return audit.forecast_audit(self.project, options or audit.AuditPlan())

    def dismiss_finding(self, finding: str, reason: str) -> Path:
        """Dismiss a finding by its id; returns the file that remembers it."""
        return audit.dismiss(self.project, finding, reason)


_EXTRAS = {
    "cluster": (("daft", "ray"), "refreshing records on a Ray cluster (records.engine: ray)"),
    "docs": (
        ("pypdfium2", "pdfplumber", "lxml", "python_calamine", "selectolax"),
        "PDF, DOCX, PPTX, XLSX and HTML",
    ),
    "embed": (
        ("huggingface_hub", "model2vec", "onnxruntime", "tokenizers"),
        "local embedding models (hf:ORG/NAME, onnx:FOLDER)",
    ),
    "jobs": (("apprise",), "notices of jobs"),
    "lance": (("lancedb",), "LanceDB as the store"),
    "ocr": (("rapidocr", "onnxruntime", "pypdfium2"), "scanned PDF pages and images"),
    "records": (
        ("daft", "deltalake", "pyarrow", "sqlalchemy"),
        "tables of records (ragwright records)",
    ),
    "serve": (
        ("fastapi", "mcp", "prometheus_client", "uvicorn"),
        "the HTTP server and tools for agents (ragwright serve, ragwright mcp)",
    ),
    "torch": (("sentence_transformers", "torch"), "sentence-transformers models (st:FOLDER)"),
    "train": (("accelerate", "datasets", "sentence_transformers"), "training (ragwright tune)"),
}
"""Extra -> the modules it brings, and what it is for."""


def doctor(
    project: Project, *, ask_models: bool = False, check_line: CheckLine | None = None
) -> list[Check]:
    """Findings on a project, then on the machine and what is installed.

    ``ask_models`` also asks each server for its list of models and opens each local model;
    no reply is paid for either way. ``check_line`` validates the command lines of jobs.
    """
    return [
        *_settings_checks(project),
        *opened.index_findings(project),
        *_worker_checks(project),
        *(opened.Check("records", *finding) for finding in drafting.record_findings(project)),
        *opened.model_findings(project, ask=ask_models),
        *(
            opened.Check("jobs", *finding)
            for finding in jobs.job_findings(jobs.project_jobs(project.settings), check_line)
        ),
        *_package_checks(),
        *_machine_checks(),
        *_extra_checks(),
    ]


def _machine_checks() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield opened.Check("machine", "ok", f"Python {version}, SQLite {ledger.sqlite_version()}")
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads is None:
        yield opened.Check(
            "machine",
            "note",
            f"numpy may use all {os.cpu_count()} cores for a search; local models use the "
            "threads of embed.threads",
            "set OMP_NUM_THREADS=1 if other work shares the machine",
        )


def _extra_checks() -> Iterator[Check]:
    for extra, (modules, use) in _EXTRAS.items():
        if all(importlib.util.find_spec(module) for module in modules):
            yield opened.Check("extras", "ok", f"[{extra}]: {use}")
        else:
            text = f"[{extra}] is not installed; it is for {use}"
            yield opened.Check("extras", "note", text, f"pip install 'ragwright[{extra}]'")


def _settings_checks(project: Project) -> Iterator[opened.Check]:
    """Faults of sections and stages, which most commands read when they use them."""
    settings = project.settings
    openings: list[Callable[[], object]] = [
        *(partial(settings.section, name) for name in settings.parts),
        *(
            partial(retrieve.open_stages, [name], settings.section)
            for name in settings.retrieve.stages
        ),
    ]
    if settings.judge.by:
        openings.append(partial(measure.open_judge, settings.judge.by))
    for open_addition in openings:
        try:
            open_addition()
        except RagwrightError as error:
            where = f"{error.where}: " if error.where else ""
            yield opened.Check("settings", "fault", f"{where}{error.what}", error.hint or "")


def _worker_checks(project: Project) -> Iterator[opened.Check]:
    """Models that each worker of a server loads for itself."""
    search = project.settings.retrieve
    names = (project.settings.embed.model, search.rerank.model)
    for name in dict.fromkeys(name for name in names if name.startswith("st:")):
        yield opened.Check(
            "serve",
            "note",
            f"each worker of `ragwright serve` loads {name} for itself, and 400 MB of torch",
            "`ragwright models` shows the size of its files; start as many workers as fit",
        )


def _package_checks() -> Iterator[opened.Check]:
    """Findings on installed packages: what they add, and why some of it cannot be used."""
    packages: dict[str, list[str]] = {}
    for new in additions_of_others():
        packages.setdefault(new.package, []).append(f"{new.kind.removesuffix('s')} {new.name}")
    for package, names in packages.items():
        yield opened.Check("packages", "ok", f"{package}: {', '.join(names)}")
    for fault in addition_faults():
        yield opened.Check(
            "packages", "fault", fault, "update or uninstall the package; the rest works without it"
        )
