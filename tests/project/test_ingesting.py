"""Groups of readers and fixed fields of documents: from front matter, rules, sources, metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from story_tools import write_files

from ragwright import Workbench
from ragwright.core import Document, reader_filter
from ragwright.ingest import Failure, FetchBytes, Reader, SuffixReader, clean_metadata
from ragwright.retrieve import parse_filter
from ragwright.workbench import AskOptions

STORES = pytest.mark.parametrize("store", ["sqlite", "lance"])


def canteen(name: str, text: str, **metadata: object) -> Document:
    return Document(id=f"canteen:{name}", source=name, text=text, metadata=clean_metadata(metadata))


LOADED: list[Document] = []


class CanteenReader(Reader):
    def accepts(self, source: str) -> bool:
        return True

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        yield from LOADED


class LineReader(SuffixReader):
    suffixes = (".cards",)

    def read_file(self, path: Path) -> Iterator[Document | Failure]:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            yield Document(f"{path}#{number}", f"{path}#{number}", line)


CANTEEN = f"{{source: canteen, reader: '{__name__}:CanteenReader'}}"


def written(folder: Path, settings: str, **files: str) -> Path:
    """A project with documents, by path with __ for /."""
    texts = {f"docs/{name.replace('__', '/')}.md": text for name, text in files.items()}
    return write_files(folder, {**texts, "ragwright.yaml": settings})


def groups_of(bench: Workbench) -> dict[str, object]:
    return {d.id.removeprefix("docs/"): d.metadata.get("groups") for d in bench.documents()}


RULES = """sources:
  - {source: docs/open}
  - {source: docs/hr, groups: [hr, board]}
groups:
  rules:
    - {match: 'docs/hr/pay/**', groups: [hr]}
    - {match: '*.secret.md', groups: [board]}
    - {match: 'docs/nowhere', groups: [hr]}
"""
READ = {
    "open/plain": ("Bread.", None),
    "open/own": ("---\ngroups: [sales, hr]\n---\nBread.", ("sales", "hr")),
    "open/text": ("---\nGroups: sales, hr\n---\nBread.", ("sales", "hr")),
    "open/x.secret": ("Bread.", ("board",)),
    "hr/list": ("Bread.", ("hr", "board")),
    "hr/pay/may": ("Bread.", ("hr",)),
    "hr/own": ("---\ngroups: board\n---\nBread.", ("board",)),
    "hr/open": ("---\ngroups: [everyone]\n---\nBread.", ("hr", "board")),
}


def test_groups_come_from_front_matter_rules_and_sources(tmp_path: Path) -> None:
    files = {name: text for name, (text, _) in READ.items()}
    files["hr/none"] = "---\ngroups: [sales]\n---\nBread."
    with Workbench.open(written(tmp_path, RULES, **files)) as bench:
        report = bench.ingest()
        assert [failure.source for failure in report.failures] == ["docs/hr/none.md"]
        assert any("docs/nowhere" in note for note in report.notes)
        assert not any("secret" in note for note in report.notes)
        assert groups_of(bench) == {f"{name}.md": groups for name, (_, groups) in READ.items()}


def test_groups_that_cannot_be_read_never_open_a_document(tmp_path: Path) -> None:
    fronts = [
        "groups: {hr: true}", "groups: 7", "groups: [hr, 7]", "groups: yes", "groups:",
        "groups: []", "groups: ['']", "groups: [[hr]]", "groups: ['hr|board']", "groups : {a: b}",
        "gruops: [hr]", "grups: [hr]", "groups: [hr", "groups: hr\nGroups: board",
    ]  # fmt: skip
    plans = {f"plan{n:02}": f"---\n{front}\n---\nBread." for n, front in enumerate(fronts)}
    with Workbench.open(written(tmp_path, "sources: [docs]\n", **plans, other="Tea.")) as bench:
        report = bench.ingest()
        named = [f"docs/{name}.md" for name in plans]
        assert [failure.source for failure in report.failures] == named
        assert all(f.source.removeprefix("docs/") in str(f.error) for f in report.failures)
        assert groups_of(bench) == {"other.md": None}


def test_metadata_of_readers_carry_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"a": ["hr"], "b": "hr, board", "c": {"hr": True}, "d": 7, "f": '["hr", "board"]'}
    LOADED[:] = [canteen(name, f"Bread {name}.", groups=groups) for name, groups in given.items()]
    LOADED.extend([canteen("e", "Tea."), canteen("g", "Fish.", gruops=["hr"])])
    monkeypatch.syspath_prepend(Path(__file__).parent)
    with Workbench.open(written(tmp_path, f"sources: [{CANTEEN}]\n")) as bench:
        report = bench.ingest()
        assert sorted(f.source for f in report.failures) == ["canteen:c", "canteen:d", "canteen:g"]
        assert groups_of(bench) == {
            "canteen:a": ("hr",),
            "canteen:b": ("hr", "board"),
            "canteen:e": None,
            "canteen:f": ("hr", "board"),
        }


@STORES
def test_a_stored_document_whose_groups_cannot_be_read_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    """Owners alone find it until it is mended; what names no groups stays as it was."""
    monkeypatch.syspath_prepend(Path(__file__).parent)
    settings = f"sources: [docs, {CANTEEN}]\nstore: {{kind: {store}}}\n"
    plan, rated, fish = "The canteen sells bread.", "The canteen sells tea.", "canteen:fish"
    everything = {"docs/plan.md", "docs/rated.md", fish}

    def found(plan: str, rated: str, **groups: object) -> tuple[set[str], int]:
        LOADED[:] = [canteen("fish", "The canteen sells fish.", **groups)]
        with Workbench.open(written(tmp_path, settings, plan=plan, rated=rated)) as bench:
            report = bench.ingest()
            right = reader_filter(("hr",), ungrouped=True)
            every, seen = (bench.retrieve("canteen", filters=f).hits for f in ((), (right,)))
            assert {hit.document_id for hit in every} == everything
            assert any("closed" in note for note in report.notes) == bool(report.failures)
            return {hit.document_id for hit in seen}, report.counts.changed

    assert found(plan, rated)[0] == everything
    for front in ("gruops: [board]", "groups: [board", "groups: {a: b}"):
        seen, _ = found(f"---\n{front}\n---\n{plan}", f"---\nn: .inf\n---\n{rated}", gruops=["b"])
        assert seen == {"docs/rated.md"}, front
    mended = found(plan, rated, groups=["board"])
    assert mended == ({"docs/plan.md", "docs/rated.md"}, 2), "mended ones are as they say"


EMBED = """embed: {model: "own:words"}
models: {"own:words": {backend: "scripted_embedders:Words"}}
"""


@STORES
def test_a_change_of_groups_embeds_nothing_and_holds_at_the_next_search(
    tmp_path: Path, store: str
) -> None:
    rule = "groups: {{rules: [{{match: 'docs/pay', groups: [{}]}}]}}\n"
    folder = written(tmp_path, "", pay__may="The pay rises in May.", tea="Tea.")

    def seen(*groups: str) -> set[str]:
        with Workbench.open(folder) as bench:
            right = reader_filter(groups, ungrouped=True)
            hits = bench.retrieve("pay in May tea", filters=right).hits
            return {hit.document_id.removeprefix("docs/") for hit in hits}

    def ingest(settings: str, **files: str) -> tuple[int, int]:
        written(tmp_path, f"{settings}{EMBED}store: {{kind: {store}}}\n", **files)
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


MAIL = "Subject: Notice\nFrom: a@example.org\n\nThe holiday rule of the mail.\n"
FIELDS = "sources: [{source: docs/hr/, metadata: {group: GROUP, level: 2}}, docs/open/]\n"


def test_fields_of_a_source_reach_every_format_and_win_over_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path, FIELDS.replace("GROUP", "hr"))
    for name in ("hr", "open"):
        files = {
            "a.md": f"---\ngroup: forged\n---\n# Rule\n\nThe holiday rule of {name}.\n",
            "b.html": f"<h1>Rule</h1><p>The holiday rule in HTML of {name}.</p>",
            "c.csv": f"rule,text\nholiday,The holiday rule in a table of {name}\n",
            "d.eml": MAIL,
        }
        write_files(folder / "docs" / name, files)

    def sources(bench: Workbench, *filters: str) -> set[str]:
        how = AskOptions(filters=tuple(map(parse_filter, filters)))
        hits = asyncio.run(bench.aretrieve("holiday rule", 50, how)).hits
        return {hit.document_id for hit in hits}

    with Workbench.open(folder) as bench:
        assert not bench.ingest().failures
        hr = sources(bench, "group=hr")
        assert hr == {f"docs/hr/{name}" for name in ("a.md", "b.html", "c.csv", "d.eml")}
        assert sources(bench, "level=2") == hr
        assert sources(bench, "document_id=docs/hr/*") == hr
        others = sources(bench, "document_id!=docs/hr/*")
        assert others
        assert not others & hr
        assert sources(bench, "group=forged") == {"docs/open/a.md"}
    written(folder, FIELDS.replace("GROUP", "people"))
    with Workbench.open(folder) as bench:
        assert bench.ingest().counts.changed == 4, "another field reads the source again"
        assert sources(bench, "group=people") == hr
    (folder / "docs/hr/a.md").write_text("# Rule\n\nThe new holiday rule.\n")
    monkeypatch.chdir(folder)
    with Workbench.open(folder) as bench:
        bench.ingest("docs/hr/")  # a folder given by hand keeps its fields
        assert "docs/hr/a.md" in sources(bench, "group=people")


@pytest.mark.parametrize("source", ["docs/desk.cards", "docs/"])
def test_a_reader_of_a_suffix_that_is_named_with_its_source_reads_it(
    tmp_path: Path, source: str
) -> None:
    named = f"sources: [{{source: {source}, reader: '{__name__}:LineReader'}}]\n"
    folder = written(tmp_path, named, plain="Bread.")
    (folder / "docs/desk.cards").write_text("Soup.\nRice.\n", "utf-8")
    with Workbench.open(folder) as bench:
        report = bench.ingest()
        ids = {document.id for document in bench.documents()}
    assert not report.failures
    others = {"docs/plain.md"} if source == "docs/" else set()
    assert ids == {"docs/desk.cards#1", "docs/desk.cards#2"} | others


def test_a_file_that_a_plug_in_cannot_read_is_a_fault_of_the_file(tmp_path: Path) -> None:
    folder = written(tmp_path, f"sources: [{{source: docs/, reader: '{__name__}:LineReader'}}]\n")
    (folder / "docs").mkdir()
    (folder / "docs/desk.cards").write_bytes(b"\xff\xfe")
    with Workbench.open(folder) as bench:
        [failure] = bench.ingest().failures
    assert failure.source == "docs/desk.cards"
    assert failure.error.hint == "check the file; the other sources were read"
