"""Passports of judges: how far a measure, a model or recorded verdicts agree with people."""

from ._checks import (
    judge_checks,
    list_passports,
    passport_line,
    passport_of_judge,
    read_passport,
    record_passport,
)
from ._compute import dimension_about, measures_about, passport_from
from ._making import (
    PassportOptions,
    calls_a_model,
    forecast_passport,
    free_passport,
    make_judged_passport,
)
from ._passport import (
    FreeDifference,
    GroupBias,
    JudgeFigures,
    JudgeKind,
    JudgePassport,
    LabelPlan,
    Passport,
    PeopleFigures,
    passport_json,
    passport_of,
)
from ._people import Adapter, Dimension, PeopleSet, Rated, check_people
from ._verdicts import FREE, Verdicts, free_verdicts, read_recorded_verdicts, verdicts_in
from .sets import MappedColumn, SetFiles, list_sets, open_people, read_column_map

__all__ = [
    "FREE",
    "Adapter",
    "Dimension",
    "FreeDifference",
    "GroupBias",
    "JudgeFigures",
    "JudgeKind",
    "JudgePassport",
    "LabelPlan",
    "MappedColumn",
    "Passport",
    "PassportOptions",
    "PeopleFigures",
    "PeopleSet",
    "Rated",
    "SetFiles",
    "Verdicts",
    "calls_a_model",
    "check_people",
    "dimension_about",
    "forecast_passport",
    "free_passport",
    "free_verdicts",
    "judge_checks",
    "list_passports",
    "list_sets",
    "make_judged_passport",
    "measures_about",
    "open_people",
    "passport_from",
    "passport_json",
    "passport_line",
    "passport_of",
    "passport_of_judge",
    "read_column_map",
    "read_passport",
    "read_recorded_verdicts",
    "record_passport",
    "verdicts_in",
]
