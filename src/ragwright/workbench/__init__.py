"""A project opened: configuration, store, runner, ingest, retrieve, ask."""

from __future__ import annotations

from ._doctor import Check, doctor
from ._gold import project_testset
from ._ingest import IngestForecast, IngestProgress, IngestReport
from ._measuring import evaluate, forecast_rows, rows_to_score
from ._opened import Session
from ._project import ProjectFolder, init_project
from ._runs import Evaluating
from ._settings import BudgetOptions, Settings, SourceEntry, load_settings, project_keys
from ._workbench import Asking, Workbench

__all__ = [
    "Asking",
    "BudgetOptions",
    "Check",
    "Evaluating",
    "IngestForecast",
    "IngestProgress",
    "IngestReport",
    "ProjectFolder",
    "Session",
    "Settings",
    "SourceEntry",
    "Workbench",
    "doctor",
    "evaluate",
    "forecast_rows",
    "init_project",
    "load_settings",
    "project_keys",
    "project_testset",
    "rows_to_score",
]
