"""Continuous evaluation: a share of served answers is scored, and drift is looked for."""

from ._drift import DriftDay, DriftReport, DriftState, MeasureDrift, compare_served, format_day
from ._measuring import MeasureReport, measure_served
from ._moves import DayShift, brief_model
from ._options import AlertOptions, MeasureServedOptions, ServedMeasureOptions, measure_options

__all__ = [
    "AlertOptions",
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
