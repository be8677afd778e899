"""Measures of a sample of stored texts."""

from __future__ import annotations

from collections.abc import Sequence

from ...drafting import OutputSample, SampledOutputs, project_outputs, sample_outputs
from ...flow import Forecast, RunSummary
from ...measure import Measure
from ...project import Project, configuration_from, keep_configuration, refuse_forget
from ._results import Evaluating, Evaluation
from ._scoring import OnForecast, OnResult, RowSelection, forecast_stored, score_stored


@refuse_forget("outputs eval")
def evaluate_outputs(
    project: Project,
    measures: str | Sequence[Measure],
    sampling: OutputSample | None = None,
    options: Evaluating | None = None,
    *,
    on_forecast: OnForecast | None = None,
    each: OnResult | None = None,
) -> tuple[Evaluation, RunSummary, SampledOutputs]:
    """Score a sample of stored texts as a new run; nothing is generated.

    The manifest of the run contains the sampling. If all rows were made under one configuration,
    the run belongs to that one, and can be promoted.

    Raises:
        StoreError: No stored text matches the query.
        MeasureError: A measure is unknown, or needs a model that is not set.
    """
    options = options or Evaluating(seed=project.session.seed)
    sampled = sample_outputs(
        project_outputs(project), sampling or OutputSample(seed=project.session.seed)
    )
    selection = RowSelection(sampled.manifest, sampled.sampling.query.scope or "")
    evaluation, summary = score_stored(
        project,
        sampled.testset,
        measures,
        options,
        on_forecast=on_forecast,
        each=each,
        drawn=selection,
    )
    if len(sampled.configurations) == 1:
        [name] = sampled.configurations
        configuration = configuration_from(project_outputs(project).settings(name))
        if configuration is not None:
            keep_configuration(project.runs, summary.run, configuration)
    return evaluation, summary, sampled


def forecast_outputs(
    project: Project, measures: str | Sequence[Measure], sampling: OutputSample
) -> Forecast:
    """Forecast the calls and cost of :func:`evaluate_outputs`, without calling any model."""
    return forecast_stored(
        project, sample_outputs(project_outputs(project), sampling).testset, measures
    )
