"""Tests of rights to read, which every store must pass."""

from __future__ import annotations

from typing import Any

import pytest

from ragwright.core import Document, Filter, FilterError, Relaxation, SoftFilter
from ragwright.index import Store, View
from ragwright.testing import PAIR, make_document, make_indexed, make_vector

_OWNERS = ((), ("hr",), ("board", "hr"), ("board",), ("hr",), ())
"""Groups of the documents; the fourth has a client and a field of its own."""


def _document_of_readers(number: int) -> Document:
    """A document that the groups of its number may read."""
    metadata: dict[str, Any] = {"client": f"client {number}"}
    if _OWNERS[number]:
        metadata["groups"] = _OWNERS[number]
    if number == 3:
        metadata["hidden_field"] = "x"
    return make_document(number, metadata=metadata)


class RightsTests:
    """Tests of filters that are rights to read (``Filter.missing``)."""

    @pytest.mark.parametrize("everyone", [True, False])
    def test_rights_to_read_narrow_every_search(self, store: Store, everyone: bool) -> None:
        """A reader of some groups finds their chunks, and those of no group if they are everyone's;
        no group and no field need exist.
        """
        view = self._view_of_readers(store)
        query = make_vector("q")[None, :]
        full, near = view.keyword("engine pump", 1000), view.dense(query, 1000)[0]
        for groups in (("hr",), ("board",), ("hr", "board"), ("nobody",)):
            right = [Filter("groups", groups, missing=everyone)]
            seen = {
                f"doc/{number:04d}"
                for number, owners in enumerate(_OWNERS)
                if set(owners) & set(groups) or (everyone and not owners)
            }
            hits = view.lookup(view.every(1000, right))
            allowed = {hit.chunk_id for hit in hits}
            assert view.count(right) == len(allowed)
            assert {hit.document_id for hit in hits} == seen
            expected = tuple(pair for pair in full if pair[0] in allowed)
            assert view.keyword("engine pump", 1000, right) == expected
            expected = tuple(pair for pair in near if pair[0] in allowed)
            assert view.dense(query, 1000, right)[0] == expected
        absent = Filter("readers", ("hr",), missing=everyone)
        assert bool(view.every(5, [absent])) is everyone
        assert view.count([absent]) == (view.count() if everyone else 0)
        assert view.count() == view.statistics().chunks

    def test_errors_name_nothing_that_rights_hide(self, store: Store) -> None:
        """A field or value of hidden chunks alone is reported as if it did not exist."""
        view = self._view_of_readers(store)
        right = Filter("groups", ("hr",), missing=True)
        for hidden in (Filter("hidden_field", ("x",)), Filter("client", ("client 3",))):
            for as_soft in (False, True):
                shown = _refusal(view, right, hidden, as_soft)
                assert shown.count("hidden_field") == (hidden.field == "hidden_field")
                assert shown.count("client 3") == (hidden.field == "client")
        nobody = Filter("groups", ("nobody",), missing=False)
        assert view.keyword("engine", 5, [nobody, Filter("hidden_field", ("x",))]) == ()

    def _view_of_readers(self, store: Store) -> View:
        items = [make_indexed(_document_of_readers(number)) for number in range(len(_OWNERS))]
        store.upsert(PAIR, items[:4])
        store.view(PAIR).close()
        store.upsert(PAIR, items[4:])
        return store.view(PAIR)


def _refusal(view: View, right: Filter, condition: Filter, as_soft: bool) -> str:
    """The error of a search under a right and a condition, with its hint once."""
    relax = Relaxation((SoftFilter(condition),) if as_soft else ())
    filters = [right] if as_soft else [right, condition]
    with pytest.raises(FilterError) as error:
        view.relaxed("engine", 5, relax, filters)
    return f"{error.value.what} {error.value.hint}"
