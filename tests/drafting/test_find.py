"""Which records are found: soft filters, rungs, thresholds, unknown names, a failing view."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draft_desk import TOPICS, Desk, a_desk, plan_of, record
from naive_relaxed import naive_relaxed

from ragwright.answer import DraftWeights
from ragwright.core import (
    ConfigError,
    Document,
    Filter,
    FilterError,
    PromptError,
    RagwrightError,
    Relaxation,
    SoftFilter,
)
from ragwright.drafting import DraftBatch, DraftPlan, DraftRequest
from ragwright.records import Rollups
from ragwright.retrieve import RetrieveOptions

FULL = DraftRequest("Jane Doe", "donation", TOPICS[:2], ("urgent",), "short", 2)
JANE = DraftRequest("Jane Doe")
NOTHING = DraftWeights(client=0, ask_type=0, topic=0, length=0, tone=0)

desk = a_desk(60, [Document("doc", "doc.md", "A donation text message from Jane Doe, in a manual")])


def preview(
    desk: Desk, request: DraftRequest = FULL, *hard: Filter, plan: DraftPlan | None = None, **o: Any
) -> DraftBatch:
    """A draft that no model is asked for, under hard filters or options."""
    chosen = replace(plan or plan_of(**o), preview=True)
    if hard:
        chosen = replace(chosen, retrieve=RetrieveOptions(filters=hard))
    return desk.draft(request, chosen)


def test_the_ladder_of_spec_b9_is_every_combination_in_turn(desk: Desk) -> None:
    batch = preview(desk, pool=30)
    weights = [hit.rung.weight for hit in batch.hits if hit.rung]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == 8 + 5 + 2 * 3 + 2 + 1
    assert len({hit.document_id for hit in batch.hits} - {"doc"}) == len(batch.hits) == 30
    for one, next_ in zip(batch.hits, batch.hits[1:], strict=False):
        if one.rung and next_.rung and one.rung.weight == next_.rung.weight:
            assert one.score >= next_.score
    soft = batch.hits[0].rung.met if batch.hits[0].rung else ()
    assert len(soft) == 6
    worth = {"client": 8.0, "ask_type": 5.0, "topic": 3.0, "length": 2.0, "tone": 1.0}
    relax = Relaxation(tuple(SoftFilter(f, worth[f.field]) for f in soft))
    view = desk.views.view(desk.target.snapshot)
    naive = naive_relaxed(view, batch.query, 30, relax, [Filter("kind", ("record",))])
    assert [key for key, _ in naive.candidates] == [hit.chunk_id for hit in batch.hits]
    # weights decide the order, spellings are rolled up, hard filters hold
    batch = preview(desk, pool=30, weights=DraftWeights(1, 1, 1, 1, 50))
    assert all("urgent" in str(hit.metadata["tone"]) for hit in batch.hits)
    assert all(hit.rung is None for hit in preview(desk, weights=NOTHING).hits)
    batch = preview(desk, replace(FULL, client=" doe, jane. "))
    assert batch.request.client == "Jane Doe"
    assert "from Jane Doe" in batch.query
    batch = preview(desk, DraftRequest(tones=("urgent",)), Filter("client", ("Rosa Lima",)))
    assert {hit.metadata["client"] for hit in batch.hits} == {"Rosa Lima"}
    batch = preview(desk, replace(FULL, length="medium"))
    assert {hit.metadata["length"] for hit in batch.hits} == {"short"}
    assert batch.notes == ("no record is medium: the examples are of other lengths",)
    assert "160 to under 400 characters" in batch.prompts[0].messages[-1][1]


TOM = Filter("client", ("Tom Ash",))


@pytest.mark.parametrize(
    ("change", "hard", "options", "told", "hint"),
    [
        ({"client": "Jane Dow"}, (), {}, "no record has the client 'Jane Dow'", "Jane Doe"),
        ({"client": "jane  lima"}, (), {}, "no record has the client", "Rosa Lima"),
        ({"ask_type": "donatoin"}, (), {}, "has the ask type 'donatoin'", "donation"),
        ({"topics": ("health",)}, (), {}, "no record has the topic 'health'", "health care"),
        ({"tones": ("Urgent!",)}, (), {}, "no record has the tone", "urgent"),
        ({"length": "shrot"}, (), {}, "unknown length group 'shrot'", "short, medium, long"),
        ({"client": "", "ask_type": "", "tones": (), "topics": ("schools",)}, (TOM,), {},
            "no record has the topic 'schools' under client=Tom Ash", ""),
        ({"client": "Tom Ash"}, (replace(TOM, exclude=True),), {},
            "no record has the client 'Tom Ash' under client!=Tom", ""),
        ({}, (), {"threshold": 90.0}, "0 records found over the threshold of 90.*kind=record",
            "lower answer.draft.threshold"),
        ({"client": "Tom Ash", "ask_type": "", "topics": (), "tones": ()}, (TOM,),
            {"examples": 25, "pool": 25}, "20 records found under client=Tom Ash",
            "--examples 20"),
        ({"count": 201}, (), {}, "201 texts", ""),
        ({"count": 0}, (), {}, "0 texts", ""),
        ({"client": "", "ask_type": "", "topics": (), "tones": (), "length": ""}, (), {},
            "the request is empty", ""),
    ],
)  # fmt: skip
def test_what_no_record_has_is_named(
    desk: Desk, change: dict[str, Any], hard: Any, options: dict[str, Any], told: str, hint: str
) -> None:
    with pytest.raises((PromptError, ConfigError), match=told) as raised:
        preview(desk, replace(FULL, **change), *hard, **options)
    assert hint in (raised.value.hint or "")
    assert (raised.value.where or "").startswith("--") or hard or options or not hint


# -- tenants: Jane Doe and Tom Ash are clients of a, Rosa Lima of b -------------------------------

ROSA = Rollups(
    names={"Rosa Lima": ("Lima, R.",), "Jane Doe": ()}, biographies={"Rosa Lima": "A teacher."}
)


def of_tenant(tenant: str, rollups: Rollups = ROSA, **options: Any) -> DraftPlan:
    hard = RetrieveOptions(filters=(Filter("tenant", (tenant,)),))
    return replace(plan_of(**options), retrieve=hard, rollups=rollups)


def test_names_of_other_tenants_are_not_told(tmp_path: Path) -> None:
    records = [record(n, tenant="b" if n % 3 == 1 else "a") for n in range(60)]
    with Desk(tmp_path, records) as desk:
        for client in ("Rosa Lime", "Rosa Lima", "Lima, R.", "lima, r", "Lima Doe"):
            for bio in (False, True):
                with pytest.raises(PromptError) as raised:
                    preview(desk, DraftRequest(client, bio=bio), plan=of_tenant("a"))
                told = str(raised.value)
                assert f"no record has the client {client!r} under tenant=a" in told
                assert "Rosa" not in told.replace(repr(client), "")
                assert "Lima" not in told.replace(repr(client), "")
        for bio in (False, True):
            assert preview(desk, DraftRequest("Lima, R.", bio=bio), plan=of_tenant("b")).hits
        with pytest.raises(PromptError) as raised:
            preview(desk, DraftRequest("Lima, R"), plan=of_tenant("b", Rollups()))
        assert raised.value.hint == "did you mean Rosa Lima?"
        for tenant, client in (("a", "Tom Ash"), ("a", "Rosa Lima"), ("b", "Lima Rosa")):
            plan = of_tenant(tenant, weights=DraftWeights(client=0))
            with pytest.raises(PromptError, match="no biography of"):
                preview(desk, DraftRequest(client, bio=True), plan=plan)


def test_hard_filters_that_leave_nothing_have_errors_of_their_own(desk: Desk) -> None:
    for hard in (Filter("client", ("Nobody",)), Filter("nofield", ("x",))):
        with pytest.raises(FilterError) as missing:
            preview(desk, JANE, hard)
        assert missing.value.field == hard.field
    with pytest.raises(RagwrightError, match=r"filter kind!=record\|note excludes") as raised:
        preview(desk, FULL, Filter("kind", ("record", "note"), exclude=True))
    assert raised.value.where == "retrieve.filters"
    found = preview(desk, JANE, replace(TOM, exclude=True))
    assert found.hits
    assert "Tom Ash" not in {hit.metadata["client"] for hit in found.hits}


# -- other indexes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        ([record(n, tone=()) for n in range(9)], "no record has any tone"),
        ([Document("d", "d.md", "A donation")], "records refresh"),
        ([Document("d", "d.md", "A donation", metadata={"kind": "manual"})], "records refresh"),
        ([], "(?s)."),
    ],
    ids=["without a tone", "no record", "another kind", "empty"],
)
def test_an_index_without_records_says_so(
    tmp_path: Path, documents: list[Document], told: str
) -> None:
    with Desk(tmp_path, documents) as small, pytest.raises(RagwrightError, match=told):
        preview(small)


def test_without_the_last_rung(tmp_path: Path) -> None:
    documents = [record(n, client="Jane Doe" if n < 3 else "Tom Ash") for n in range(20)]
    request = DraftRequest("Jane Doe", length="")
    with Desk(tmp_path, documents) as small:
        assert len(preview(small, request).hits) == 8
        with pytest.raises(PromptError, match=r"(?s)3 records found.*answer\.draft\.unfiltered"):
            preview(small, request, unfiltered=False)
