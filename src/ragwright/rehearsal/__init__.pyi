from ._gate import (
    RehearsalCheck as RehearsalCheck,
    RehearsalRule as RehearsalRule,
    RehearsalState as RehearsalState,
    RehearsalVerdict as RehearsalVerdict,
    gate_rehearsal as gate_rehearsal,
    parse_rehearsal_gate as parse_rehearsal_gate,
    rehearsal_shares as rehearsal_shares,
    share_meanings as share_meanings,
)
from ._options import Rehearsing as Rehearsing
from ._records import (
    REASONS as REASONS,
    AnswerChange as AnswerChange,
    ChangedDocument as ChangedDocument,
    GroupView as GroupView,
    Passage as Passage,
    ReaderGroup as ReaderGroup,
    Reason as Reason,
    ReasonKind as ReasonKind,
    Rehearsal as Rehearsal,
    RehearsalGroup as RehearsalGroup,
    RehearsedQuestion as RehearsedQuestion,
    SideAnswer as SideAnswer,
    StaleDraft as StaleDraft,
)
from ._rehearse import (
    RehearsalForecast as RehearsalForecast,
    forecast_rehearsal as forecast_rehearsal,
    rehearse as rehearse,
)
