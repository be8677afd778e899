from ._kernels import as_texts as as_texts, found_in as found_in, refusal as refusal, whole as whole
from ._matching import matches as matches, replaced as replaced
from ._plan import (
    Pattern as Pattern,
    Replace as Replace,
    Replacement as Replacement,
    compiled as compiled,
    plan_of as plan_of,
    quoted as quoted,
    tokens_of as tokens_of,
)
