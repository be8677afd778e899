"""Continuous evaluation: a share of served answers is scored, and drift is looked for."""

from ._drift import (
    DayShift,
    DriftDay,
    DriftReport,
    DriftState,
    MeasureDrift,
    brief_model,
    compare_served,
    format_day,
)
from ._measuring import (
    MeasureReport,
    MeasureServedOptions,
    ServedMeasureOptions,
    measure_options,
    measure_served,
)

__all__ = [
    "DayShift",
    "DriftDay",
    "DriftReport",
    "DriftState",
    "MeasureDrift",
    "MeasureReport",
    "MeasureServedOptions",
    "ServedMeasureOptions",
    "brief_model",
    "compare_served",
    "format_day",
    "measure_options",
    "measure_served",
]
