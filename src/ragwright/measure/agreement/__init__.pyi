from ._calibration import (
    Calibration as Calibration,
    calibrate as calibrate,
)
from ._corrected import (
    Labelled as Labelled,
    LabelsNeeded as LabelsNeeded,
    corrected_mean as corrected_mean,
    labels_needed as labels_needed,
    shifted_mean as shifted_mean,
)
from ._people import (
    Agreement as Agreement,
    PeopleAgreement as PeopleAgreement,
    judge_difference as judge_difference,
    on_label_scale as on_label_scale,
    people_agreement as people_agreement,
    rank_agreement as rank_agreement,
)
