"""The verbs that look for better settings, models and prompts, and for what costs points."""

from __future__ import annotations

import importlib.util
import os
import sys
from abc import ABC
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from .. import (
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
from ..audit import Audit, AuditPlan
from ..core import RagwrightError, addition_faults, additions_of_others
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
from ..flow import Forecast, RunSummary
from ..jobs import CheckLine
from ..measure import Measure
from ..project import Check, Project
from ..testsets import Testset
from ..training import ModelTuneOptions, TuneResult, TutorialOptions, TutorialTable


class TuningVerbs(ABC):
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
    "torch": (
        ("sentence_transformers", "torch"),
        "sentence-transformers models (st:FOLDER)",
    ),
    "train": (
        ("accelerate", "datasets", "sentence_transformers"),
        "training (ragwright tune)",
    ),
}
"""Extra -> the modules it brings, and what it is for."""


def doctor(
    project: Project, *, ask_models: bool = False, check_line: CheckLine | None = None
) -> list[Check]:
    """Findings on a project, in the order of setting it up.

    ``ask_models`` also asks each server for its list of models and opens each local model;
    no reply is paid for either way. ``check_line`` validates the command lines of jobs.
    """
    return [
        *_machine_checks(),
        *_extra_checks(),
        *_package_checks(),
        *_settings_checks(project),
        *opened.index_findings(project),
        *_worker_checks(project),
        *(opened.Check("records", *finding) for finding in drafting.record_findings(project)),
        *opened.model_findings(project, ask=ask_models),
        *(
            opened.Check("jobs", *finding)
            for finding in jobs.job_findings(jobs.project_jobs(project.settings), check_line)
        ),
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
