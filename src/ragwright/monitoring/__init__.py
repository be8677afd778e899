"""Continuous evaluation: a share of served answers is scored, and drift is looked for."""

from ._drift import DriftDay, DriftReport, DriftState, MeasureDrift, served_drift, shown_day
from ._measuring import Measured, measure_served
from ._moves import Moved, brief_model
from ._options import AlertOptions, Measuring, ServedMeasureOptions, measure_options

__all__ = [
    "AlertOptions",
    "DriftDay",
    "DriftReport",
    "DriftState",
    "MeasureDrift",
    "Measured",
    "Measuring",
    "Moved",
    "ServedMeasureOptions",
    "brief_model",
    "measure_options",
    "measure_served",
    "served_drift",
    "shown_day",
]
