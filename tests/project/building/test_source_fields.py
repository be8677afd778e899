"""Fixed fields of a source, prefixes of fields, and whose personas are served."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench
from ragwright.core import ConfigError, FilterError
from ragwright.project import init_project
from ragwright.retrieve import parse_filter

SETTINGS = """\
sources:
  - {{source: docs/hr/, metadata: {{group: hr, level: 2}}}}
  - docs/open/
store: {{kind: {kind}}}
"""
MAIL = b"Subject: Notice\nFrom: a@example.org\n\nThe holiday rule of the mail.\n"


def folder_of(tmp_path: Path, kind: str = "sqlite") -> Path:
    folder = MakeProject(tmp_path)("")
    for name in ("hr", "open"):
        place = folder / "docs" / name
        place.mkdir(parents=True)
        (place / "a.md").write_text(
            f"---\ngroup: forged\n---\n# Rule\n\nThe holiday rule of {name}.\n"
        )
        (place / "b.html").write_text(f"<h1>Rule</h1><p>The holiday rule in HTML of {name}.</p>")
        (place / "c.csv").write_text(f"rule,text\nholiday,The holiday rule in a table of {name}\n")
        (place / "d.eml").write_bytes(MAIL)
    (folder / "ragwright.yaml").write_text(SETTINGS.format(kind=kind), "utf-8")
    return folder


def sources(bench: Workbench, *filters: str) -> set[str]:
    from ragwright.workbench import AskOptions

    how = AskOptions(filters=tuple(map(parse_filter, filters)))
    hits = asyncio.run(bench.aretrieve("holiday rule", 50, how)).hits
    return {hit.document_id for hit in hits}


@pytest.mark.parametrize("kind", ["sqlite", "lance"])
def test_fields_of_a_source_reach_every_format_and_win_over_the_document(
    tmp_path: Path, kind: str
) -> None:
    with Workbench.open(folder_of(tmp_path, kind)) as bench:
        assert not bench.ingest().failures
        hr = sources(bench, "group=hr")
        assert len(hr) >= 4
        assert all(name.startswith("docs/hr/") for name in hr), hr
        assert sources(bench, "level=2") == hr
        assert sources(bench, "document_id=docs/hr/*") == hr
        others = sources(bench, "document_id!=docs/hr/*")
        assert others
        assert not others & hr
        assert sources(bench, "group=forged") == {"docs/open/a.md"}


def test_another_field_reads_the_source_again_and_a_folder_given_by_hand_keeps_its_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path)
    with Workbench.open(folder) as bench:
        bench.ingest()
    file = folder / "ragwright.yaml"
    file.write_text(file.read_text().replace("group: hr", "group: people"))
    with Workbench.open(folder) as bench:
        assert bench.ingest().counts.changed >= 4
        assert sources(bench, "group=people")
    (folder / "docs/hr/a.md").write_text("# Rule\n\nThe new holiday rule.\n")
    monkeypatch.chdir(folder)
    with Workbench.open(folder) as bench:
        bench.ingest("docs/hr/")
        assert "docs/hr/a.md" in sources(bench, "group=people")


def test_fields_must_be_a_mapping(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    (folder / "ragwright.yaml").write_text("sources: [{source: docs/hr/, metadata: hr}]\n")
    with pytest.raises(ConfigError, match="metadata"), Workbench.open(folder) as bench:
        bench.ingest()


def test_a_field_that_filters_could_not_use_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    entry = "{source: docs/hr/, metadata: {group: hr, team: {name: hr}}}"
    (folder / "ragwright.yaml").write_text(f"sources: [{entry}]\n")
    with pytest.raises(ConfigError, match=r"metadata\.team") as caught, Workbench.open(folder):
        pass
    assert "ragwright.yaml:1" in str(caught.value.where)


def test_a_prefix_reads_back_as_it_is_written() -> None:
    assert str(parse_filter("document_id=docs/hr/*")) == "document_id=docs/hr/*"
    assert str(parse_filter("code!=20*")) == "code!=20*"
    assert parse_filter("a=x|y*").values == ("x", "y*"), "a list holds plain values"
    with pytest.raises(FilterError):
        parse_filter("a=")


def test_only_personas_of_the_project_are_served(tmp_path: Path) -> None:
    from served import served

    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "a.md").write_text("# A\n\nThe coolant must be changed.\n")
    init_project(folder, ("a.md",))
    with Workbench.open(folder) as bench:
        bench.ingest()
        assert bench.ask("What must be changed?", "engineer").text, "on request they are there"

    def models() -> list[str]:
        with served(folder, "serve.name=x") as running:
            return [one["id"] for one in running.http.get("/v1/models").json()["data"]]

    assert models() == ["x"]
    example = folder / "personas/support.yaml.example"
    example.rename(folder / "personas/support.yaml")
    assert models() == ["x", "x/support"]
