from ._checks import judge_checks as judge_checks, passport_line as passport_line
from ._compute import (
    dimension_about as dimension_about,
    measures_about as measures_about,
    passport_from as passport_from,
)
from ._making import (
    PassportOptions as PassportOptions,
    calls_a_model as calls_a_model,
    forecast_passport as forecast_passport,
    free_passport as free_passport,
    judged_passport as judged_passport,
)
from ._passport import (
    FreeDifference as FreeDifference,
    GroupBias as GroupBias,
    JudgeFigures as JudgeFigures,
    JudgeKind as JudgeKind,
    JudgePassport as JudgePassport,
    LabelPlan as LabelPlan,
    Passport as Passport,
    PeopleFigures as PeopleFigures,
    passport_json as passport_json,
    passport_of as passport_of,
)
from ._people import (
    Adapter as Adapter,
    Dimension as Dimension,
    PeopleSet as PeopleSet,
    Rated as Rated,
    checked_people as checked_people,
)
from ._stored import (
    known_passports as known_passports,
    passport_of_judge as passport_of_judge,
    read_passport as read_passport,
    record_passport as record_passport,
)
from ._verdicts import (
    FREE as FREE,
    Verdicts as Verdicts,
    free_verdicts as free_verdicts,
    recorded_verdicts as recorded_verdicts,
    verdicts_in as verdicts_in,
)
from .sets import (
    MappedColumn as MappedColumn,
    SetFiles as SetFiles,
    known_sets as known_sets,
    open_people as open_people,
    read_column_map as read_column_map,
)
