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
from .sets import (
    SetFiles as SetFiles,
    known_sets as known_sets,
    open_people as open_people,
)
