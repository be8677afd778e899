from ._kernels import as_texts, found_in, refusal, whole
from ._matching import matches, replaced
from ._plan import Pattern, Replace, Replacement, compiled, plan_of, quoted, tokens_of

__all__ = [
    "Pattern",
    "Replace",
    "Replacement",
    "as_texts",
    "compiled",
    "found_in",
    "matches",
    "plan_of",
    "quoted",
    "refusal",
    "replaced",
    "tokens_of",
    "whole",
]
