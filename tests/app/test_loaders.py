"""Loaders of LangChain and readers of LlamaIndex as sources of a project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright.workbench import Workbench


def told(folder: Path, *words: str, code: int = 0) -> Any:
    return json.loads(ragwright(folder, "ingest", "--json", *words, code=code).stdout)


def ids(folder: Path) -> list[str]:
    with Workbench.open(folder) as bench:
        return sorted(document.id for document in bench.documents())


LOADER = """
import json
from pathlib import Path


class Found:
    def __init__(self, text, **metadata):
        self.page_content, self.metadata = text, metadata


class Wiki:
    def __init__(self, token="", broken=0):
        self.token, self.broken = token, broken

    def lazy_load(self):
        pages = json.loads(Path("pages.json").read_text())
        for number, page in enumerate(pages, 1):
            if self.broken and number > self.broken:
                raise RuntimeError(f"401 for token {self.token}")
            yield page if isinstance(page, str) else Found(**page)


def numbers():
    return 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wiki_loader.py").write_text(LOADER)
    return tmp_path


def wiki(folder: Path, pages: list[Any], arguments: str = "{}", more: str = "") -> None:
    (folder / "pages.json").write_text(json.dumps(pages))
    (folder / "ragwright.yaml").write_text(
        "sources:\n  - {loader: 'wiki_loader:Wiki', source: wiki, "
        f"arguments: {arguments}{more}}}\n"
    )


PAGES = [
    {"text": "The pump is checked weekly.", "source": "https://wiki.test/pump", "title": "Pump"},
    {"text": "The belt is changed yearly.", "source": "https://wiki.test/belt"},
]


@pytest.mark.slow
def test_documents_of_a_loader_are_read_once_and_again_where_they_changed(folder: Path) -> None:
    wiki(folder, PAGES)
    assert told(folder)["documents"]["added"] == 2
    assert ids(folder) == ["wiki:https://wiki.test/belt", "wiki:https://wiki.test/pump"]
    assert told(folder)["documents"]["unchanged"] == 2
    wiki(folder, [{**PAGES[0], "text": "The pump is checked daily."}, *PAGES[1:]])
    again = told(folder)["documents"]
    assert (again["changed"], again["unchanged"]) == (1, 1)
    hits = json.loads(ragwright(folder, "retrieve", "pump", "--json").stdout)["hits"]
    assert hits[0]["source"] == "https://wiki.test/pump"
    wiki(folder, PAGES[1:])
    assert told(folder, "--prune")["documents"]["removed"] == 1


def test_a_loader_that_fails_in_the_middle_costs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wiki(folder, PAGES)
    told(folder)
    monkeypatch.setenv("WIKI_TOKEN", "s3cret-value")
    new = {"text": "The valve is new.", "source": "https://wiki.test/valve"}
    wiki(folder, [new, *PAGES], "{broken: 1, token: {env: WIKI_TOKEN}}")
    found = told(folder, "--prune")
    assert found["documents"]["added"] == 1
    assert found["documents"]["removed"] == 0
    [failure] = found["failures"]
    assert "failed after 1 document: RuntimeError: 401" in failure["reason"]
    assert "s3cret" not in json.dumps(found)
    assert len(ids(folder)) == 3
    monkeypatch.delenv("WIKI_TOKEN")
    [failure] = told(folder, "--prune", code=1)["failures"]
    assert "WIKI_TOKEN is not set" in failure["reason"]
    assert len(ids(folder)) == 3


def test_documents_with_one_source_or_none_are_numbered(folder: Path) -> None:
    page = PAGES[0]
    wiki(
        folder, [page, {**page, "text": "Second page."}, {"text": "Nothing known."}, "Text alone."]
    )
    assert told(folder)["documents"]["added"] == 4
    assert ids(folder) == [
        "wiki:#1",
        "wiki:#2",
        "wiki:https://wiki.test/pump",
        "wiki:https://wiki.test/pump#2",
    ]
    assert told(folder)["documents"]["unchanged"] == 4


def test_what_is_too_long_empty_or_no_document_costs_itself_only(folder: Path) -> None:
    long = {"text": "word " * 50, "source": "long"}
    wiki(folder, [long, {"text": "  ", "source": "empty"}, {"text": 5, "source": "five"}, *PAGES])
    text = (folder / "ragwright.yaml").read_text().replace("{}", "{}, max_bytes: 100")
    (folder / "ragwright.yaml").write_text(text)
    found = told(folder)
    assert found["documents"]["added"] == 2
    assert {f["source"]: f["reason"].split(",")[0] for f in found["failures"]} == {
        "wiki:long": "the document has 250 characters",
        "wiki:five": "the loader returned Found",
    }
    assert [one["source"] for one in found["skipped"]] == ["wiki:empty"]


@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ("nosuch.package:Loader", "install the package"),
        ("wiki_loader:numbers", "returns int, not documents"),
        ("wiki_loader:Nobody", "has no 'Nobody'"),
        ("wiki_loader", "module:object"),
    ],
)
def test_what_is_no_loader_is_said(folder: Path, loader: str, said: str) -> None:
    (folder / "ragwright.yaml").write_text(f"sources: [{{loader: '{loader}'}}]\n")
    assert said in ragwright(folder, "ingest", code=1).stdout


@pytest.mark.needs_frameworks
@pytest.mark.filterwarnings("ignore:.langchain-community. is being sunset:DeprecationWarning")
def test_a_loader_of_langchain_reads_local_files(folder: Path) -> None:
    (folder / "rows.csv").write_text("part,interval\npump,weekly\nbelt,yearly\n")
    (folder / "ragwright.yaml").write_text(
        "sources:\n"
        "  - loader: langchain_community.document_loaders:CSVLoader\n"
        f"    arguments: {{file_path: '{folder / 'rows.csv'}'}}\n"
    )
    assert told(folder)["documents"]["added"] == 2
    assert ids(folder) == ["CSVLoader:rows.csv", "CSVLoader:rows.csv#2"]
    assert told(folder)["documents"]["unchanged"] == 2
    assert "interval: yearly" in ragwright(folder, "retrieve", "belt").stdout


@pytest.mark.slow
@pytest.mark.needs_frameworks
def test_a_reader_of_llama_index_reads_local_files(folder: Path) -> None:
    (folder / "notes").mkdir()
    (folder / "notes" / "pump.txt").write_text("The pump is checked weekly.")
    (folder / "notes" / "belt.txt").write_text("The belt is changed yearly.")
    (folder / "ragwright.yaml").write_text(
        "sources:\n"
        "  - loader: llama_index.core:SimpleDirectoryReader\n"
        "    source: notes of the team\n"
        f"    arguments: {{input_dir: '{folder / 'notes'}'}}\n"
    )
    assert told(folder)["documents"]["added"] == 2
    assert ids(folder) == ["notes of the team:notes/belt.txt", "notes of the team:notes/pump.txt"]
    assert told(folder)["documents"]["unchanged"] == 2
