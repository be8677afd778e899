from ._evaluating import (
    System,
    Work,
    answering_work,
    do_work,
    has_result,
    ranking_work,
    results_of_run,
    run_evaluation,
    run_work,
    scoring_work,
    stored_evaluation,
)
from ._given_rows import GivenRows, given_rows, of_testset, stored_or_given
from ._names import KnownRun, check_run_name, find_run, known_runs, sweeps_by_use
from ._options import Evaluating
from ._testsets import project_testset, with_current_gold

__all__ = [
    "Evaluating",
    "GivenRows",
    "KnownRun",
    "System",
    "Work",
    "answering_work",
    "check_run_name",
    "do_work",
    "find_run",
    "given_rows",
    "has_result",
    "known_runs",
    "of_testset",
    "project_testset",
    "ranking_work",
    "results_of_run",
    "run_evaluation",
    "run_work",
    "scoring_work",
    "stored_evaluation",
    "stored_or_given",
    "sweeps_by_use",
    "with_current_gold",
]
