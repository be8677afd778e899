"""Baselines: distances between questions and answers, compared with those of given pairs."""

from ._baseline import (
    BaselineOptions,
    BaselineResult,
    DistanceSet,
    DistanceShift,
    KeptPair,
    baseline_runs,
    distance_shift,
    forecast_baseline,
    list_baselines,
    load_baseline,
    load_baselines,
    open_baselines,
    run_baseline,
)

__all__ = [
    "BaselineOptions",
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
