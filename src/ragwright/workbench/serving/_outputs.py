"""What was served, measured: a sample of stored texts goes through scoring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import measuring
from ..outputs import Sampling, sample_outputs
from ..project import at_work, configuration_from, keep_configuration
from ..runs import Evaluating

if TYPE_CHECKING:
    from ...experiment import Evaluation
    from ...flow import Forecast, RunSummary
    from ...measure import Measure
    from ..measuring import Each, Told
    from ..outputs import SampledOutputs
    from ._saving import Serving


@at_work("outputs eval")
def evaluate_outputs(
    bench: Serving,
    measures: str | Sequence[Measure],
    sampling: Sampling | None = None,
    how: Evaluating | None = None,
    *,
    told: Told | None = None,
    each: Each | None = None,
) -> tuple[Evaluation, RunSummary, SampledOutputs]:
    """Score a sample of what was served into a stored run; nothing is generated.

    The run states the draw in its manifest. Where all rows were made under one configuration, the
    run was measured under that one, and can be promoted.

    Raises:
        StoreError: No text is stored that the query names.
        MeasureError: A measure is unknown, or needs a model that is not set.
    """
    chosen = how or Evaluating(seed=bench.session.seed)
    sampled = sample_outputs(bench.outputs, sampling or Sampling(seed=bench.session.seed))
    drawn = measuring.Drawn(sampled.manifest, sampled.sampling.query.scope or "")
    evaluation, summary = measuring.score_stored(
        bench, sampled.testset, measures, chosen, told=told, each=each, drawn=drawn
    )
    if len(sampled.configurations) == 1:
        [name] = sampled.configurations
        configuration = configuration_from(bench.outputs.settings(name))
        if configuration is not None:
            keep_configuration(bench.runs, summary.run, configuration)
    return evaluation, summary, sampled


def forecast_outputs(
    bench: Serving, measures: str | Sequence[Measure], sampling: Sampling
) -> Forecast:
    """What :func:`evaluate_outputs` would call and cost, without calling any model."""
    return measuring.forecast_stored(
        bench, sample_outputs(bench.outputs, sampling).testset, measures
    )
