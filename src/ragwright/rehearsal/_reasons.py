"""Why an answer changes: by its passages first, then by what wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..core import RagwrightError, rights_first
from ..project import setting_text
from ._records import Passage, Reason, ReasonKind, SideAnswer
from ._sides import rights

if TYPE_CHECKING:
    from ._sides import Side, Sides

_WORDS = re.compile(r"\w+")
_ALIKE = 0.5
"""Share of a passage's words that its new version must hold."""

_FINDING = ("chunk.", "keyword.", "embed.", "store.", "retrieve.", "models.")
_FILTERS = ("retrieve.filters", "retrieve.soft")
_PROMPTING = ("prompt.", "prompts/", "personas/", "answer.persona")
_ANSWERING = "answer."


@dataclass(slots=True)
class Reasons:
    """Finds the reasons of changes; reads each document at most once per side."""

    sides: Sides
    groups: tuple[str, ...] | None = None

    def of(self, before: SideAnswer, after: SideAnswer) -> tuple[Reason, ...]:
        """The reasons of a change, the most direct first."""
        if before.error or after.error:
            side, error = ("after", after.error) if after.error else ("before", before.error)
            return (Reason("failed", f"{side} the change: {error}"),)
        reasons = self._of_passages(before, after)
        reasons += self._of_writing(before, after, same_passages=not reasons)
        if any(reason.direct for reason in reasons):
            return tuple(sorted(reasons, key=lambda reason: not reason.direct))
        return tuple(replace(reason, direct=True) for reason in reasons)

    # -- passages --------------------------------------------------------------------------

    def _of_passages(self, before: SideAnswer, after: SideAnswer) -> list[Reason]:
        passages_by_kind: dict[tuple[ReasonKind, bool], list[Passage]] = {}
        for passage in before.hits:
            if kind := self._why_lost(passage, after.hits):
                kind = _moved_at_least(kind, passage, before, after)
                passages_by_kind.setdefault((kind, _cited(passage, before)), []).append(passage)
        for passage in after.hits:
            if kind := self._why_gained(passage, before.hits):
                kind = _moved_at_least(kind, passage, after, before)
                passages_by_kind.setdefault((kind, _cited(passage, after)), []).append(passage)
        ranked = {cited: passages_by_kind.pop(("search", cited), []) for cited in (True, False)}
        reasons = [
            Reason(kind, self._evidence(kind, passages), tuple(passages), cited)
            for (kind, cited), passages in passages_by_kind.items()
        ]
        finding = self._changed(_FINDING, without=_FILTERS)
        places = [[p.place for p in answer.hits] for answer in (before, after)]
        reordered = not passages_by_kind and places[0] != places[1]
        direct = any(cited for _, cited in passages_by_kind)
        if (any(ranked.values()) and (finding or not direct)) or reordered:
            passages = tuple(ranked[True] + ranked[False])
            by_cited = bool(ranked[True]) or reordered
            evidence = self._search_evidence(passages)
            reasons.append(Reason("search", evidence, passages, by_cited))
        return reasons

    def _why_lost(self, passage: Passage, new: Sequence[Passage]) -> ReasonKind | None:
        """Why the new passages lack a present one; None if they have it."""
        if any(passage.place == q.place and passage.text == q.text for q in new):
            return None
        if any(passage.text == q.text for q in new):
            return "passage moved"
        return self._by_document(passage, self.sides.before, self.sides.after, "passage gone")

    def _why_gained(self, passage: Passage, old: Sequence[Passage]) -> ReasonKind | None:
        if any(passage.text == p.text for p in old):
            return None  # at the same place, or reported as moved
        return self._by_document(passage, self.sides.after, self.sides.before, "passage new")

    def _by_document(
        self, passage: Passage, own: Side, other: Side, missing: ReasonKind
    ) -> ReasonKind:
        """Why a passage of one side is not on the other; ``missing`` if its text is not there."""
        name = passage.document_id
        if name not in other.hashes:
            return missing
        if other.hashes[name] != own.hashes.get(name):
            document = other.document(name)
            text = "" if document is None else document.text
            if passage.text not in text:
                return "passage changed" if _resembles(passage.text, text) else missing
        return self._by_filter(passage, other)

    def _by_filter(self, passage: Passage, side: Side) -> ReasonKind:
        """``filter`` if a changed hard filter of this side excludes the passage."""
        project = side.project
        own = rights(project, self.groups)
        if not self._changed(_FILTERS) and not own:
            return "search"
        try:
            view = project.views.current(project.pair)
            chunk = f"{passage.document_id}:{passage.start}-{passage.end}"
            filters = rights_first((*project.settings.retrieve.filters, *own))
            [allowed] = view.allowed([chunk], filters)
        except RagwrightError:
            return "search"  # it is cut differently there, or the filter fits nothing
        return "search" if allowed else "filter"

    def _evidence(self, kind: ReasonKind, passages: Iterable[Passage]) -> str:
        names = ", ".join(dict.fromkeys(passage.document_id for passage in passages))
        if kind == "filter":
            what = self._shown_settings(_FILTERS) or "the readers' groups"
            return f"{what} {'excludes' if self._changed(_FILTERS) else 'exclude'} {names}"
        where = {
            "passage gone": "is no longer in",
            "passage changed": "differs in",
            "passage moved": "is elsewhere in",
            "passage new": "comes from",
        }
        return f"{where[kind]} {names}"

    def _search_evidence(self, ranked: Sequence[Passage] | None) -> str:
        finding = self._changed(_FINDING)
        if finding:
            return self._shown_settings(_FINDING)
        order = "other passages rank higher" if ranked else "the same passages in another order"
        return f"{order}, since other documents changed" if self.sides.documents else order

    # -- writing ---------------------------------------------------------------------------

    def _of_writing(
        self, before: SideAnswer, after: SideAnswer, *, same_passages: bool
    ) -> list[Reason]:
        reasons = []
        if before.model != after.model:
            reasons.append(Reason("model", f"{before.model} → {after.model}"))
        if self._changed(_PROMPTING) and before.prompt != after.prompt:
            reasons.append(Reason("prompt", self._shown_settings(_PROMPTING)))
        if reasons or not same_passages or _equal_text(before, after):
            return reasons
        others = self._changed((_ANSWERING, "models."))
        if others:
            return [Reason("settings", self._shown_settings((_ANSWERING, "models.")))]
        if before.prompt != after.prompt and self.sides.settings:
            keys = ", ".join(self.sides.settings)
            return [Reason("prompt", f"the prompts differ over the same passages: {keys}")]
        if self.sides.settings:
            return [Reason("settings", ", ".join(self.sides.settings))]
        return [Reason("unexplained", "the same passages and the same prompt")]

    def _changed(self, heads: Sequence[str], without: Sequence[str] = ()) -> list[str]:
        """Changed keys that begin with one of the heads."""
        return [
            key
            for key in self.sides.settings
            if key.startswith(tuple(heads)) and not (without and key.startswith(tuple(without)))
        ]

    def _shown_settings(self, heads: Sequence[str]) -> str:
        parts = []
        for key in self._changed(heads):
            old, new = self.sides.settings[key]
            parts.append(f"{key} {_shown(key, old)} → {_shown(key, new)}")
        return ", ".join(parts)


def _shown(key: str, value: Any) -> str:
    text = setting_text(key, value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _moved_at_least(
    kind: ReasonKind, passage: Passage, own: SideAnswer, other: SideAnswer
) -> ReasonKind:
    """``passage moved`` if what is cited of a changed passage is cited elsewhere, word for word."""
    cited = [citation.text.strip() for citation in own.citations if passage.holds(citation)]
    texts = {citation.text.strip() for citation in other.citations}
    changed = kind in ("passage changed", "passage new", "passage gone")
    return "passage moved" if changed and cited and texts.issuperset(cited) else kind


def _cited(passage: Passage, answer: SideAnswer) -> bool:
    return any(passage.holds(citation) for citation in answer.citations)


def _equal_text(before: SideAnswer, after: SideAnswer) -> bool:
    return before.text == after.text and before.abstained == after.abstained


def _resembles(passage: str, text: str) -> bool:
    """True if a window of the text, of the passage's length, holds half of its words."""
    wanted = {word.lower() for word in _WORDS.findall(passage)}
    words = [word.lower() for word in _WORDS.findall(text)]
    if not wanted or not words:
        return False
    size = max(8, len(_WORDS.findall(passage)))
    step = max(1, size // 2)
    windows = (set(words[at : at + size]) for at in range(0, len(words), step))
    return any(len(wanted & window) >= _ALIKE * len(wanted) for window in windows)
