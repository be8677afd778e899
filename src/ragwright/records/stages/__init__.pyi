from ._bronze import BronzeRows as BronzeRows, check_text as check_text, renamed as renamed
from ._clean_texts import clean_texts as clean_texts, repeated_at_most as repeated_at_most
from ._duplicates import (
    duplicates as duplicates,
    kind_of_reason as kind_of_reason,
    left_out_keys as left_out_keys,
)
from ._gold import GoldStep as GoldStep
from ._hashes import row_hashes as row_hashes
from ._silver import (
    RetagStep as RetagStep,
    SilverStep as SilverStep,
    tag_lists as tag_lists,
    tagged as tagged,
)
