from ._answers import looked_up as looked_up
from ._declared import (
    LOOKUPS as LOOKUPS,
    Lookup as Lookup,
    LookupName as LookupName,
    LookupRows as LookupRows,
    read_lookups as read_lookups,
)
from ._kept import (
    LookupCounts as LookupCounts,
    compared as compared,
    keep as keep,
    kept_file as kept_file,
    kept_folder as kept_folder,
)
from ._merging import merged as merged, with_biographies as with_biographies
from ._reading import Lookups as Lookups
