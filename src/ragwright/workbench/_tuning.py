"""The verbs that look for better settings, models and prompts, and for what costs points."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from pathlib import Path

from .. import audit, experiment, promise, training
from ..audit import Audit, AuditPlan
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
    Study,
    SweepForecast,
    SweepOptions,
    SweepResult,
)
from ..flow import Forecast, RunSummary
from ..measure import Measure
from ..project import Project
from ..promise import PromiseOptions, PromiseResult
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
        """Certify a risk of wrong answers; see :func:`ragwright.promise.make_promise`."""
        return promise.make_promise(self.project, options, told)

    def forecast_promise(
        self, options: PromiseOptions, told: Callable[[str], None] | None = None
    ) -> Forecast:
        """Forecast the calls and cost of :meth:`promise`; the confirm split stays closed."""
        return promise.forecast_promise(self.project, options, told)

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

    def stored_audit(self, run: str = "latest", *, every: bool = False) -> Audit:
        """A stored audit again; ``every`` includes findings of rules that are often wrong."""
        return audit.load_audit(self.project, run, every=every)

    def dismiss_finding(self, finding: str, reason: str) -> Path:
        """Dismiss a finding by its id; returns the file that remembers it."""
        return audit.dismiss(self.project, finding, reason)
