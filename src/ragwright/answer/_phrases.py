"""The sentences that ragwright writes into answers itself, from one data file, by language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import shipped_mapping
from ..models import question_language

FALLBACK = "en"


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences of a language; English ones where it has none."""

    language: str

    def text(self, key: str, **values: object) -> str:
        """A sentence with its values."""
        return str(self._phrase_entry(key)).format(**values)

    def forms(self, key: str) -> Sequence[str]:
        """The forms of a word or sentence for one and for several things."""
        forms: Sequence[str] = self._phrase_entry(key)
        return forms

    def _phrase_entry(self, key: str) -> Any:
        every: Mapping[str, Mapping[str, Any]] = shipped_mapping("answer", "phrases.yaml").values
        phrases = every.get(self.language, {})
        return phrases[key] if key in phrases else every[FALLBACK][key]


def phrases_for(question: str) -> Phrases:
    """The sentences in the language of a question; English where its language is open."""
    return Phrases(question_language(question))


def refusal(question: str) -> str:
    """The sentence of an abstention, in the language of the question."""
    return phrases_for(question).text("refused")
