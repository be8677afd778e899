"""Baselines: distances between questions and answers, compared with those of given pairs."""

from ._running import BaselineOptions, forecast_baseline, run_baseline
from ._stored import (
    BaselineOutcome,
    BaselineResult,
    DistanceSet,
    DistanceShift,
    KeptPair,
    baseline_runs,
    distance_shift,
    list_baselines,
    load_baseline,
    load_baselines,
    open_baselines,
)

__all__ = [
    "BaselineOptions",
    "BaselineOutcome",
    "BaselineResult",
    "DistanceSet",
    "DistanceShift",
    "KeptPair",
    "baseline_runs",
    "distance_shift",
    "forecast_baseline",
    "list_baselines",
    "load_baseline",
    "load_baselines",
    "open_baselines",
    "run_baseline",
]
