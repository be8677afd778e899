"""Things of a question that no document in the index holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..models import fold, things, words
from ..retrieve import Retrieved, Target

_LACKING = 2.5
"""Taken from the logit of every sentence. A sentence on study leave that holds all other words of a
question for parental leave has about 0.7, and then less than the threshold. Set by hand."""

_START, _ENDING = 5, 4
"""Letters that two forms of a word share at least, and by which their lengths may differ."""


def lacking(question: str, retrieved: Retrieved, target: Target) -> tuple[str, ...]:
    """The words for things in a question that no chunk of the index holds, in any form.

    Rarity says nothing of them in a small index, where all words are rare. Empty where no keyword
    channel looked them up.
    """
    absent = {term.token for term in retrieved.explanation.terms if not term.chunks}
    if not absent or target.analyzer is None:
        return ()
    unknown = []
    for word in things(question):
        tokens = target.analyzer.query_tokens(word)
        if tokens and absent.issuperset(tokens) and not _is_inflected(word, retrieved):
            unknown.append(word)
    return tuple(unknown)


def _is_inflected(word: str, retrieved: Retrieved) -> bool:
    """True where a passage holds another form of a word, or a compound that ends with it."""
    folded = fold(word.casefold())
    start = folded[: max(_START, len(folded) - 3)]
    for hit in retrieved.hits:
        for passage_word in words(f"{hit.title} {' '.join(hit.headings)} {hit.text}"):
            form = fold(passage_word.casefold())
            at = form.rfind(start)
            apart = abs(len(form) - at - len(folded))
            if (at == 0 or (at > 0 and len(folded) >= _START)) and apart <= _ENDING:
                return True
    return False


def lowered(scores: Sequence[float]) -> tuple[float, ...]:
    """Scores of sentences for a question with a thing that no document holds."""
    factor = math.exp(-_LACKING)
    return tuple(round(s * factor / (1 - s + s * factor), 6) if s < 1 else s for s in scores)
