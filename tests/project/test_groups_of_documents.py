"""Documents get their groups of readers from front matter, rules, sources and metadata."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ragwright import Workbench
from ragwright.core import ConfigError, Document, reader_filter
from ragwright.ingest import Failure, FetchBytes, Reader, clean_metadata


def canteen(name: str, text: str, **metadata: object) -> Document:
    return Document(id=f"canteen:{name}", source=name, text=text, metadata=clean_metadata(metadata))


def load() -> list[Document]:
    """Documents that carry groups, readable ones and others."""
    return [
        canteen("a", "The canteen opens at noon.", groups=["hr"]),
        canteen("b", "The canteen closes at two.", groups="hr, board"),
        canteen("c", "The canteen sells soup.", groups={"hr": True}),
        canteen("d", "The canteen sells bread.", groups=7),
        canteen("e", "The canteen is open to all."),
        canteen("f", "The canteen sells tea.", groups='["hr", "board"]'),
        canteen("g", "The canteen sells fish.", gruops=["hr"]),
    ]


class CanteenReader(Reader):
    """Reads what ``load`` returns."""

    def accepts(self, source: str) -> bool:
        return True

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        yield from load()


def written(folder: Path, settings: str, **files: str) -> Path:
    """A project with documents, by path with __ for /."""
    for name, text in files.items():
        place = folder / "docs" / (name.replace("__", "/") + ".md")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    (folder / "ragwright.yaml").write_text(settings, "utf-8")
    return folder


def groups_of(folder: Path) -> dict[str, object]:
    """Groups of each stored document."""
    with Workbench.open(folder) as bench:
        return {d.id.removeprefix("docs/"): d.metadata.get("groups") for d in bench.documents()}


def test_groups_come_from_front_matter_rules_and_sources(tmp_path: Path) -> None:
    """The last rule that matches holds; where several places name groups, all must name one."""
    folder = written(
        tmp_path,
        "sources:\n"
        "  - {source: docs/open}\n"
        "  - {source: docs/hr, groups: [hr, board]}\n"
        "groups:\n"
        "  rules:\n"
        "    - {match: 'docs/hr/pay/**', groups: [hr]}\n"
        "    - {match: '*.secret.md', groups: [board]}\n"
        "    - {match: 'docs/nowhere', groups: [hr]}\n",
        open__plain="Bread.",
        open__own="---\ngroups: [sales, hr]\n---\nBread.",
        open__text="---\nGroups: sales, hr\n---\nBread.",
        **{"open__x.secret": "Bread."},
        hr__list="Bread.",
        hr__pay__may="Bread.",
        hr__own="---\ngroups: board\n---\nBread.",
        hr__open="---\ngroups: [everyone]\n---\nBread.",
        hr__none="---\ngroups: [sales]\n---\nBread.",
    )
    with Workbench.open(folder) as bench:
        report = bench.ingest()
    assert [failure.source for failure in report.failures] == ["docs/hr/none.md"]
    assert any("docs/nowhere" in note for note in report.notes)
    assert not any("secret" in note for note in report.notes)
    assert groups_of(folder) == {
        "open/plain.md": None,
        "open/own.md": ("sales", "hr"),
        "open/text.md": ("sales", "hr"),
        "open/x.secret.md": ("board",),
        "hr/list.md": ("hr", "board"),
        "hr/pay/may.md": ("hr",),
        "hr/own.md": ("board",),
        "hr/open.md": ("hr", "board"),
    }


@pytest.mark.parametrize(
    "front",
    [
        "groups: {hr: true}",
        "groups: 7",
        "groups: [hr, 7]",
        "groups: yes",
        "groups:",
        "groups: []",
        "groups: ['']",
        "groups: [[hr]]",
        "groups: ['hr|board']",
        "groups : {a: b}",
        "gruops: [hr]",
        "grups: [hr]",
        "groups: [hr",
        "groups: hr\nGroups: board",
    ],
)
def test_groups_that_cannot_be_read_never_open_a_document(tmp_path: Path, front: str) -> None:
    """The document fails, with its place; it does not become everyone's."""
    folder = written(tmp_path, "sources: [docs]\n", plan=f"---\n{front}\n---\nBread.", other="Tea.")
    with Workbench.open(folder) as bench:
        report = bench.ingest()
        assert [failure.source for failure in report.failures] == ["docs/plan.md"]
        assert "plan.md" in str(report.failures[0].error)
    assert groups_of(folder) == {"other.md": None}


@pytest.mark.parametrize(
    "settings",
    [
        "sources: [docs]\ngroups: {rules: [{match: '', groups: [hr]}]}",
        "sources: [docs]\ngroups: {rules: [{match: hr, groups: []}]}",
        "sources: [docs]\ngroups: {rules: [{match: hr, groups: ['a|b']}]}",
        "sources: [docs]\ngroups: {ungrouped: nobody}",
        "sources: [{source: docs, groups: ['']}]",
        "sources: [{source: docs, metadata: {groups: {a: b}}}]",
        "sources: [{source: docs, metadata: {grups: hr}}]",
    ],
)
def test_rules_that_protect_nothing_are_refused(tmp_path: Path, settings: str) -> None:
    """A rule without a pattern or groups, and names that cannot be groups."""
    with pytest.raises(ConfigError), Workbench.open(written(tmp_path, settings)):
        pass


def test_metadata_of_readers_carry_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readable ones are kept; documents with others fail and the rest is read."""
    settings = f"sources: [{{source: canteen, reader: '{__name__}:CanteenReader'}}]\n"
    monkeypatch.syspath_prepend(Path(__file__).parent)
    folder = written(tmp_path, settings)
    with Workbench.open(folder) as bench:
        report = bench.ingest()
    assert sorted(f.source for f in report.failures) == ["canteen:c", "canteen:d", "canteen:g"]
    assert groups_of(folder) == {
        "canteen:a": ("hr",),
        "canteen:b": ("hr", "board"),
        "canteen:e": None,
        "canteen:f": ("hr", "board"),
    }


@pytest.mark.parametrize("store", ["", "store: {kind: lance}\n"], ids=["sqlite", "lance"])
def test_a_stored_document_whose_groups_cannot_be_read_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    """Owners alone find it until it is mended; what names no groups stays as it was."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    loaded = [canteen("fish", "The canteen sells fish.")]
    monkeypatch.setitem(globals(), "load", lambda: loaded)
    plan, rated = "The canteen sells bread.", "The canteen sells tea."
    folder = written(
        tmp_path,
        f"sources: [docs, {{source: canteen, reader: '{__name__}:CanteenReader'}}]\n{store}",
        plan=plan,
        rated=rated,
    )

    def found() -> tuple[set[str], int]:
        with Workbench.open(folder) as bench:
            report = bench.ingest()
            right = reader_filter(("hr",), ungrouped=True)
            every, seen = (bench.retrieve("canteen", filters=f).hits for f in ((), (right,)))
            assert {hit.document_id for hit in every} == {"docs/plan.md", "docs/rated.md", fish}
            assert any("closed" in note for note in report.notes) == bool(report.failures)
            return {hit.document_id for hit in seen}, report.counts.changed

    fish = "canteen:fish"
    everything = {"docs/plan.md", "docs/rated.md", fish}
    assert found()[0] == everything
    loaded[0] = canteen("fish", "The canteen sells fish.", gruops=["board"])
    for front in ("gruops: [board]", "groups: [board", "groups: {a: b}"):
        written(folder, (folder / "ragwright.yaml").read_text(), plan=f"---\n{front}\n---\n{plan}")
        written(
            folder, (folder / "ragwright.yaml").read_text(), rated=f"---\nn: .inf\n---\n{rated}"
        )
        assert found()[0] == {"docs/rated.md"}, front
    loaded[0] = canteen("fish", "The canteen sells fish.", groups=["board"])
    written(folder, (folder / "ragwright.yaml").read_text(), plan=plan, rated=rated)
    assert found() == ({"docs/plan.md", "docs/rated.md"}, 2), "mended ones are as they say"


EMBED = """embed: {model: "own:words"}
models: {"own:words": {backend: "scripted_embedders:Words"}}
"""


@pytest.mark.parametrize("store", ["", "store: {kind: lance}\n"], ids=["sqlite", "lance"])
def test_a_change_of_groups_embeds_nothing_and_holds_at_the_next_search(
    tmp_path: Path, store: str
) -> None:
    """Front matter, rules and the groups of a source."""
    rule = "groups: {{rules: [{{match: 'docs/pay', groups: [{}]}}]}}\n"
    folder = written(tmp_path, "", pay__may="The pay rises in May.", tea="Tea.")

    def seen(*groups: str) -> set[str]:
        with Workbench.open(folder) as bench:
            right = reader_filter(groups, ungrouped=True)
            hits = bench.retrieve("pay in May tea", filters=right).hits
            return {hit.document_id.removeprefix("docs/") for hit in hits}

    def ingest(settings: str, **files: str) -> tuple[int, int]:
        written(tmp_path, settings + EMBED + store, **files)
        with Workbench.open(folder) as bench:
            report = bench.ingest()
            assert not report.failures
            return report.counts.changed, report.embedded

    sources = "sources: [docs]\n"
    assert ingest(sources) == (0, 2)
    assert seen() == {"pay/may.md", "tea.md"}
    assert ingest(sources + rule.format("hr")) == (1, 0)
    assert seen() == {"tea.md"}
    assert seen("hr") == {"pay/may.md", "tea.md"}
    assert ingest(sources + rule.format("board")) == (1, 0)
    assert seen("hr") == {"tea.md"}
    assert ingest("sources: [{source: docs, groups: [all]}]\n") == (2, 0)
    assert seen("hr") == set()
    assert ingest(sources, tea="---\ngroups: hr\n---\nTea.") == (2, 0)
    assert seen() == {"pay/may.md"}
    assert seen("hr") == {"pay/may.md", "tea.md"}
