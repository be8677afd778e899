"""One file, whole and harmless: its numbers are those of the run, and no text of it runs."""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from study_subject import (
    HOSTILE,
    MEASURES,
    MakeStudy,
    embedded_blocks,
    embedded_data,
    entry,
    result,
    unpack_block,
)

from ragwright.core import MissingExtraError, Score
from ragwright.experiment import Ablation, PartEffect, PartResult, RowResult
from ragwright.report import Board, Report, Subject

VOID = {"meta", "input", "br", "path", "circle"}


class Outline(HTMLParser):
    """Tags, scripts, attributes and visible texts of a document."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.cells: list[list[str]] = []
        self.document = Report(subject).html()
        self.feed(self.document)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th") and self.cells:
            self.cells[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            told, text = self.scripts[-1]
            self.scripts[-1] = (told, text + data)
        elif self.open[-1:] != ["style"]:
            self.texts.append(data)
            if self.cells and self.cells[-1] and self.open[-1:] != ["caption"]:
                self.cells[-1][-1] += data


def one_run(rows: list[RowResult]) -> Subject:
    facts = {"testset": "made up"}
    return Subject("One run", "run", (entry("run-7", rows),), measures=MEASURES, facts=facts)


def test_nothing_is_loaded_and_only_two_scripts_may_run() -> None:
    found = Outline(MakeStudy()(6))
    for tag, name, value in found.attributes:
        if name in {"src", "href", "srcset", "action", "data"}:
            assert name == "href", (tag, name)
            assert (value or "").startswith("#"), value
        assert not name.startswith("on"), (tag, name)
    assert "@import" not in found.document
    assert not re.search(r"url\(", found.document.split("<body>")[0])
    [policy] = [value or "" for _, _, value in found.attributes if "script-src" in (value or "")]
    running = [text for told, text in found.scripts if "type" not in told]
    assert len(running) == 1
    library = next(text for told, text in found.scripts if told.get("id") == "library")
    code = gzip.decompress(base64.b64decode(library)).decode()
    hashes = [hashlib.sha256(text.encode()).digest() for text in (*running, code)]
    allowed = set(re.findall(r"sha256-([A-Za-z0-9+/=]+)", policy))
    assert allowed == {base64.b64encode(one).decode() for one in hashes}
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "connect-src" not in policy


def test_numbers_are_those_of_the_run() -> None:
    subject = MakeStudy()(9)
    found = Outline(subject)
    board = [cells for cells in found.cells if len(cells) > 9 and cells[1].startswith("T0")]
    assert len(board) == 9
    for place, cells in enumerate(board, 1):
        one = subject.entry(cells[1][:4])
        assert one is not None
        summary = one.summary("TokenF1")
        assert summary is not None
        assert cells[0].rstrip("*") == str(place)
        [shown] = [cell for cell in cells if "[" in cell]
        assert shown.startswith(f"{summary.mean:.3f} [{summary.low:.2f}, {summary.high:.2f}]")
        assert str(one.rows) in cells
    data, blocks = embedded_data(found.document), embedded_blocks(found.document)
    by_id = {told["id"]: told for told in data["index"]["entries"]}
    for one in subject.entries:
        scores = unpack_block(blocks[by_id[one.id]["scores"]])
        kept = list(one.read())
        for at, measure in enumerate(data["measures"]):
            values = [s.value for row in kept for s in row.scores if s.measure == measure]
            assert scores["m"][at][0] == values


def test_hostile_texts_do_not_break_out() -> None:
    found = Outline(MakeStudy(text=HOSTILE)(4))
    assert len([told for told, _ in found.scripts if "type" not in told]) == 1
    assert not any(tag == "img" for tag, _, _ in found.attributes)
    assert "<img" not in found.document
    settings = json.dumps(embedded_data(found.document)["settings"], ensure_ascii=False)
    told = settings.encode("utf-8", "replace").decode()
    told = told.replace("\\u0000", "\x00").replace('\\"', '"')
    assert HOSTILE.replace("\ud800", "?") in told
    assert "window.broken = 1</script>" not in found.document
    assert any("{{ 7 * 7 }} ${" in text for text in found.texts)
    assert not any("49 ${" in text for text in found.texts), "no text is rendered as a template"


def test_verdict_first_and_what_limits_it() -> None:
    subject = replace(MakeStudy()(6), stopped="the budget of 2.00 is spent", openings=2)
    texts = Outline(subject).texts
    for said in (
        "leads the current settings on TokenF1",
        "Not confirmed yet: ",
        "Stopped early: the budget of 2.00 is spent",
        "has been opened 2 times",
    ):
        assert said in " ".join(texts)
    heads = [at for at, text in enumerate(texts) if "leads the current" in text]
    assert heads[0] < texts.index("chunk.size")
    best_first = MakeStudy(value=lambda trial, at: ((1.0 if not trial else 0.5), 3.0))
    assert Report(best_first(4)).headline.text.startswith("No trial beats")


def test_where_something_is_missing_that_is_said() -> None:
    empty = Subject("Empty", "study", (), goal="TokenF1", measures=MEASURES)
    found = Outline(empty)
    assert " Nothing was measured." in found.texts
    assert embedded_data(found.document)["index"]["entries"] == []
    assert Report(empty).csv().count("\n") == 1
    failing = tuple(Score(m, "errored", reason="Boom: gone") for m in MEASURES)
    found = Outline(one_run([RowResult(f"q{n}", (), failing) for n in range(3)]))
    assert " None of the 3 rows has a score." in found.texts
    assert any("errored 3" in text for text in found.texts)
    failed = MakeStudy()(3)
    lost = [replace(one, state="errored", reason="no key", rows=0) for one in failed.entries]
    texts = Outline(replace(failed, entries=tuple(lost), boards=())).texts
    assert any("3 errored: no key" in text for text in texts)
    alone = Outline(MakeStudy()(1))
    assert any("no other trial to compare" in text for text in alone.texts)
    found = Outline(one_run([result(at, (0.5, None), made=False) for at in range(4)]))
    assert any(text.startswith(" TokenF1 (0-1) is 0.5000") for text in found.texts)
    [[_, _, block]] = embedded_data(found.document)["index"]["entries"][0]["rows"]
    answer, _, _, prompt, made, _ = unpack_block(embedded_blocks(found.document)[block])[0]
    assert answer is not None
    assert (prompt, made) == ([], None)


def test_two_runs_side_by_side() -> None:
    before = entry("A", [result(at, (0.2 + at / 100, 2.0)) for at in range(20)])
    after = entry("B", [result(at, (0.6 + at / 90, 2.0)) for at in range(20)])
    report = Report(Subject("A and B", "pair", (before, after), measures=MEASURES))
    assert report.headline.state == "better"
    assert report.headline.text.startswith("B compared with A: better by +0.4")
    verdicts = {k: v["verdict"] for k, v in report.json()["comparison"]["measures"].items()}
    assert verdicts == {"TokenF1": "better", "Faithfulness": "no change proven"}


def test_judges_are_never_ranked_together() -> None:
    boards = (Board(("T000", "T001"), judge="a"), Board(("T003", "T002"), judge="b"))
    found = Outline(replace(MakeStudy()(5), boards=boards))
    places = [cells[0] for cells in found.cells if len(cells) > 5 and cells[1].startswith("T0")]
    assert places == ["1", "2", "1", "2"]
    assert "How the order depends on the judge" in found.texts


def test_effects_of_prompt_parts() -> None:
    def part(name: str, effect: PartEffect, **more: Any) -> PartResult:
        effects = (replace(effect, part=name, n=40),)
        return PartResult(name, "leave one out", 1, effects, **more)

    helps = PartEffect("", "TokenF1", difference=0.05, low=0.01, high=0.09, verdict="helps")
    small = PartEffect("", "TokenF1", difference=0.001, low=-0.01, high=0.012)
    role = part("role", helps, tokens=12.0)
    length = part("length", replace(small, loss=0.01, margin=0.05))
    nothing = part("debris", PartEffect("", "TokenF1"))
    told = Ablation("made up", 40, (role, length, nothing), margin=0.05)
    subject = Subject("Ablation", "run", (), measures=("TokenF1",), ablation=told)
    report = Report(subject)
    said = "Proven on 40 rows: role helps (TokenF1 +0.05"
    assert report.headline.text.startswith(said)
    [chart] = [c for c in report.charts if c.name.startswith("ablation-TokenF1")]
    assert [row[-1] for row in chart.rows] == ["helps", "safe to delete", "no effect proven"]
    assert chart.spec is not None
    assert len(chart.spec["data"]["values"]) == 2
    Outline(subject)


def test_json_and_csv_hold_every_trial() -> None:
    report = Report(MakeStudy(text="=1+1")(4))
    told = json.loads(json.dumps(report.json()))
    assert [one["id"] for one in told["entries"]] == ["T000", "T001", "T002", "T003"]
    assert told["charts"]["key-chunk-size"]["table"]["head"][0] == "chunk.size"
    lines = list(csv.DictReader(io.StringIO(report.csv())))
    assert len(lines) == 8
    assert [line["place"] for line in lines] == sorted(line["place"] for line in lines)
    means = [float(line["mean"]) for line in lines if line["measure"] == "TokenF1"]
    assert float(lines[0]["mean"]) == max(means)


@pytest.mark.slow
def test_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = Report(MakeStudy()(4))
    drawn = list(report.pictures(tmp_path / "charts"))
    assert len(drawn) == len(report.charts)
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtraError, match=r"ragwright\[viz\]"):
        list(report.pictures(tmp_path))
