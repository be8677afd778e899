from ._documents import (
    about_scans as about_scans,
    faults_of as faults_of,
    image_extract as image_extract,
    nothing_recognised as nothing_recognised,
    with_text as with_text,
)
from ._engine import Sight as Sight
from ._installed import engine_name as engine_name, may_recognise as may_recognise
from ._order import in_reading_order as in_reading_order
from ._pictures import IMAGES as IMAGES
from ._scans import ScannedPage as ScannedPage, ScanProgress as ScanProgress, recognise as recognise
