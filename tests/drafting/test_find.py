"""Which records are found: soft filters, rungs, thresholds, unknown names, a failing view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draft_desk import TOPICS, Desk, plan_of, record
from naive_relaxed import naive_relaxed

from ragwright.answer import DraftWeights
from ragwright.core import (
    Document,
    Filter,
    FilterError,
    PromptError,
    RagwrightError,
    Relaxation,
    RetrieveError,
    SoftFilter,
)
from ragwright.drafting import DraftBatch, DraftPlan, DraftRequest
from ragwright.index import SqliteStore
from ragwright.records import Rollups, TextFormat
from ragwright.records.declared import FormatPiece
from ragwright.retrieve import RetrieveOptions

FULL = DraftRequest("Jane Doe", "donation", TOPICS[:2], ("urgent",), "short", 2)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    others = [Document("doc", "doc.md", "A donation text message from Jane Doe, told in a manual")]
    with Desk(tmp_path_factory.mktemp("desk"), [*map(record, range(60)), *others]) as made:
        yield made


def preview(desk: Desk, request: DraftRequest, plan: DraftPlan | None = None) -> DraftBatch:
    return desk.draft(request, replace(plan or plan_of(), preview=True))


def test_the_ladder_of_spec_b9(desk: Desk) -> None:
    batch = preview(desk, FULL, plan_of(pool=30))
    weights = [hit.rung.weight for hit in batch.hits if hit.rung]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == 8 + 5 + 2 * 3 + 2 + 1
    assert len({hit.document_id for hit in batch.hits}) == len(batch.hits) == 30
    assert "doc" not in {hit.document_id for hit in batch.hits}
    for one, next_ in zip(batch.hits, batch.hits[1:], strict=False):
        if one.rung and next_.rung and one.rung.weight == next_.rung.weight:
            assert one.score >= next_.score


def test_the_same_as_every_combination_in_turn(desk: Desk) -> None:
    batch = preview(desk, FULL, plan_of(pool=30))
    soft = batch.hits[0].rung.met if batch.hits[0].rung else ()
    assert len(soft) == 6
    weights = {"client": 8.0, "ask_type": 5.0, "topic": 3.0, "length": 2.0, "tone": 1.0}
    relax = Relaxation(tuple(SoftFilter(f, weights[f.field]) for f in soft))
    view = desk.views.view(desk.target.snapshot)
    naive = naive_relaxed(view, batch.query, 30, relax, [Filter("kind", ("record",))])
    assert [key for key, _ in naive.candidates] == [hit.chunk_id for hit in batch.hits]


def test_weights_decide_the_order(desk: Desk) -> None:
    tones_first = DraftWeights(client=1, ask_type=1, topic=1, length=1, tone=50)
    batch = preview(desk, FULL, plan_of(pool=30, weights=tones_first))
    assert all("urgent" in str(hit.metadata["tone"]) for hit in batch.hits)
    none = DraftWeights(client=0, ask_type=0, topic=0, length=0, tone=0)
    assert all(hit.rung is None for hit in preview(desk, FULL, plan_of(weights=none)).hits)


def test_spellings_are_rolled_up_first(desk: Desk) -> None:
    batch = preview(desk, replace(FULL, client=" doe, jane. "))
    assert batch.request.client == "Jane Doe"
    assert "from Jane Doe" in batch.query


@pytest.mark.parametrize(
    ("change", "what", "near"),
    [
        ({"client": "Jane Dow"}, "no record has the client 'Jane Dow'", "Jane Doe"),
        ({"client": "jane  lima"}, "no record has the client", "Jane Doe"),
        ({"ask_type": "donatoin"}, "no record has the ask type 'donatoin'", "donation"),
        ({"topics": ("health",)}, "no record has the topic 'health'", "health care"),
        ({"tones": ("Urgent!",)}, "no record has the tone", "urgent"),
        ({"length": "shrot"}, "unknown length group 'shrot'", "short, medium, long"),
    ],
)
def test_names_that_no_record_has(desk: Desk, change: dict[str, Any], what: str, near: str) -> None:
    with pytest.raises(PromptError, match=what) as raised:
        preview(desk, replace(FULL, **change))
    assert near in (raised.value.hint or "")
    assert (raised.value.where or "").startswith("--")


def test_rollups_name_the_nearest_where_the_index_does_not(desk: Desk) -> None:
    rollups = Rollups(names={"Jane Doe": ("Zweig & Partners",)})
    with pytest.raises(PromptError) as raised:
        preview(desk, replace(FULL, client="Zweig & Partner"), replace(plan_of(), rollups=rollups))
    assert raised.value.hint == "nearest: Jane Doe"


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Jane Doe and Tom Ash are clients of tenant a, Rosa Lima of b."""
    records = [record(n, tenant="b" if n % 3 == 1 else "a") for n in range(60)]
    with Desk(tmp_path_factory.mktemp("tenants"), records) as made:
        yield made


def of_tenant(tenant: str) -> DraftPlan:
    hard = RetrieveOptions(filters=(Filter("tenant", (tenant,)),))
    names = {"Rosa Lima": ("Lima, R.",), "Jane Doe": ()}
    rollups = Rollups(names=names, biographies={"Rosa Lima": "A teacher."})
    return replace(plan_of(), retrieve=hard, rollups=rollups)


@pytest.mark.parametrize("client", ["Rosa Lime", "Rosa Lima", "Lima, R.", "lima, r", "Lima Doe"])
@pytest.mark.parametrize("bio", [False, True])
def test_names_of_other_tenants_are_not_told(tenants: Desk, client: str, bio: bool) -> None:
    request = DraftRequest(client, bio=bio)
    with pytest.raises(PromptError) as raised:
        preview(tenants, request, of_tenant("a"))
    told = str(raised.value).replace(repr(client), "")
    assert f"no record has the client {client!r} under tenant=a" in str(raised.value)
    assert "Rosa" not in told
    assert "Lima" not in told
    assert preview(tenants, DraftRequest("Lima, R.", bio=bio), of_tenant("b")).hits
    with pytest.raises(PromptError) as raised:
        preview(tenants, DraftRequest("Lima, R"), replace(of_tenant("b"), rollups=Rollups()))
    assert raised.value.hint == "nearest: Rosa Lima"


def test_biographies_of_other_tenants_are_not_told(tenants: Desk) -> None:
    for tenant, named in (("a", False), ("b", True)):
        plan = of_tenant(tenant)
        client = "Tom Ash" if tenant == "a" else "Lima Rosa"
        plan = replace(plan, options=replace(plan.options, weights=DraftWeights(client=0)))
        with pytest.raises(PromptError, match="no biography of") as raised:
            preview(tenants, DraftRequest(client, bio=True), plan)
        assert ("Rosa Lima" in (raised.value.hint or "")) is named


def test_a_hard_filter_that_nothing_meets_is_its_own_error(tenants: Desk) -> None:
    for filters in ((Filter("client", ("Nobody",)),), (Filter("nofield", ("x",)),)):
        plan = replace(plan_of(), retrieve=RetrieveOptions(filters=filters))
        with pytest.raises(FilterError) as raised:
            preview(tenants, DraftRequest("Jane Doe"), plan)
        assert raised.value.field == filters[0].field


def test_a_field_that_no_record_has(tmp_path: Path) -> None:
    toneless = [record(n, tone=()) for n in range(9)]
    raised = pytest.raises(PromptError, match="no record has any tone")
    with Desk(tmp_path, toneless) as small, raised:
        preview(small, FULL)


def test_without_records(tmp_path: Path) -> None:
    manual = Document("doc", "doc.md", "A donation text message", metadata={"kind": "manual"})
    for number, documents in enumerate(([Document("d", "d.md", "A donation")], [manual], [])):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Desk(folder, documents) as small, pytest.raises(RagwrightError) as raised:
            preview(small, FULL)
        if documents:
            assert isinstance(raised.value, RetrieveError)
            assert "records refresh" in (raised.value.hint or "")


def test_a_project_that_keeps_records_out_hears_why_there_is_no_draft(desk: Desk) -> None:
    barred = RetrieveOptions(filters=(Filter("kind", ("record", "note"), exclude=True),))
    with pytest.raises(RetrieveError, match=r"filter kind!=record\|note excludes") as raised:
        preview(desk, FULL, replace(plan_of(), retrieve=barred))
    assert raised.value.where == "retrieve.filters"
    other = RetrieveOptions(filters=(Filter("client", ("Tom Ash",), exclude=True),))
    found = preview(desk, DraftRequest("Jane Doe"), replace(plan_of(), retrieve=other))
    assert found.hits
    assert "Tom Ash" not in {hit.metadata["client"] for hit in found.hits}
    with pytest.raises(PromptError, match="no record has the client 'Tom Ash' under client!=Tom"):
        preview(desk, DraftRequest("Tom Ash"), replace(plan_of(), retrieve=other))


def test_too_few_records_say_how_many_and_what_to_loosen(desk: Desk) -> None:
    with pytest.raises(PromptError, match="0 records found over the threshold of 90") as raised:
        preview(desk, FULL, plan_of(threshold=90.0))
    assert "kind=record" in raised.value.what
    assert "lower answer.draft.threshold" in (raised.value.hint or "")
    hard = replace(plan_of(), retrieve=RetrieveOptions(filters=(Filter("client", ("Tom Ash",)),)))
    bound = replace(hard, options=replace(hard.options, examples=25, pool=25))
    with pytest.raises(PromptError, match="20 records found under client=Tom Ash") as raised:
        preview(desk, DraftRequest("Tom Ash"), bound)
    assert "--examples 20" in (raised.value.hint or "")


def test_a_length_that_no_record_has_is_relaxed(desk: Desk) -> None:
    batch = preview(desk, replace(FULL, length="medium"))
    assert {hit.metadata["length"] for hit in batch.hits} == {"short"}
    assert batch.notes == ("no record is medium: the examples are of other lengths",)
    assert "160 to under 400 characters" in batch.prompts[0].messages[-1][1]


def test_values_are_known_under_the_hard_filters_alone(desk: Desk) -> None:
    hard = RetrieveOptions(filters=(Filter("client", ("Tom Ash",)),))
    with pytest.raises(PromptError, match="no record has the topic 'schools' under client=Tom Ash"):
        preview(desk, DraftRequest(topics=("schools",)), replace(plan_of(), retrieve=hard))


def test_without_the_last_rung(tmp_path: Path) -> None:
    documents = [record(n, client="Jane Doe" if n < 3 else "Tom Ash") for n in range(20)]
    request = DraftRequest("Jane Doe", length="")
    with Desk(tmp_path, documents) as small:
        assert len(preview(small, request).hits) == 8
        with pytest.raises(PromptError, match="3 records found") as raised:
            preview(small, request, plan_of(unfiltered=False))
    assert "answer.draft.unfiltered" in (raised.value.hint or "")


def test_hard_filters_hold(desk: Desk) -> None:
    hard = RetrieveOptions(filters=(Filter("client", ("Rosa Lima",)),))
    batch = preview(desk, DraftRequest(tones=("urgent",)), replace(plan_of(), retrieve=hard))
    assert {hit.metadata["client"] for hit in batch.hits} == {"Rosa Lima"}


def test_the_second_index_answers_and_the_batch_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Desk(tmp_path, [record(n) for n in range(40)]) as small:
        sound = preview(small, FULL)
    again = tmp_path / "again"
    again.mkdir()

    def broken(*_: object, **__: object) -> None:
        raise OSError("the view's files are damaged")

    monkeypatch.setattr(SqliteStore, "view", broken)
    with Desk(again, [record(n) for n in range(40)]) as small:
        batch = preview(small, FULL)
    assert [hit.chunk_id for hit in batch.hits] == [hit.chunk_id for hit in sound.hits]
    assert [hit.rung for hit in batch.hits] == [hit.rung for hit in sound.hits]
    assert any("damaged" in note for note in batch.notes), batch.notes
    assert not sound.notes


def test_an_empty_request_is_refused(desk: Desk) -> None:
    with pytest.raises(PromptError, match="the request is empty"):
        preview(desk, DraftRequest(length=""))
    with pytest.raises(PromptError, match="201 texts"):
        preview(desk, replace(FULL, count=201))


def test_a_record_without_message_at_is_an_example_as_a_whole(tmp_path: Path) -> None:
    bare = [
        Document(f"r{n}", f"r{n}", f"donation {n}", metadata={"kind": "record", "tone": "calm"})
        for n in range(5)
    ]
    with Desk(tmp_path, bare) as small:
        request = DraftRequest(tones=("calm",), length="")
        plan = replace(plan_of(), format=TextFormat("own", (FormatPiece("tone", "donation "),)))
        batch = preview(small, request, plan)
    assert batch.prompts[0].messages[2][1].startswith("donation ")
    assert batch.prompts[0].messages[1][1] == "donation calm"
