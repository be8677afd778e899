from ._collecting import (
    Collected as Collected,
    Collecting as Collecting,
    collect_feedback as collect_feedback,
)
from ._confirm_gold import ConfirmGold as ConfirmGold, confirm_gold as confirm_gold
from ._rows import (
    Asked as Asked,
    Tally as Tally,
    candidate_row as candidate_row,
    proposed as proposed,
)
