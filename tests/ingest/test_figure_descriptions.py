"""Figures described by a vision model: searched, shown, priced, asked once, and never quoted."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from described_figures import TEXT, drawing, figures, images_of, page, settings
from small_project import MakeProject

from ragwright import Session, Workbench
from ragwright.core import BudgetStopped, ConfigError, MissingKeyError
from ragwright.ingest import image_size
from ragwright.testing import Reply, ScriptedServer, ServerRequest

np = pytest.importorskip("numpy")
pytest.importorskip("selectolax")


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    return MakeProject(tmp_path)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(TEXT) as running:
        yield running


def test_a_description_is_searched_and_shown_and_never_text(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    image = drawing(90)
    folder = make_project(settings(server), **{"pump.html": page(image), "hose.md": "# Hose\n"})
    with Workbench.open(folder) as bench:
        planned = bench.forecast_ingest()
        assert server.count == 0
        assert planned.calls is not None
        assert planned.calls.calls.expected == 1
        assert planned.calls.cost is not None
        assert planned.calls.cost.expected > 0.3  # 255 tokens of the image among them
        report = bench.ingest()
        assert report.notes[-1].endswith("described 1 figure")
        assert [images_of(request) for request in server.requests] == [[image]]
        (hit,) = [h for h in bench.retrieve("TX-4711", 3).hits if h.document_id.endswith("html")]
        assert hit.head is not None
        assert hit.head.figures == f"Figure: {TEXT}"
        assert "TX-4711" not in hit.text
        document = next(d for d in bench.documents() if d.id == hit.document_id)
        assert document.text[hit.start : hit.end] == hit.text
        assert "TX-4711" not in bench.ask("What is TX-4711?").text
        (figure,) = figures(bench)
        assert figure["description"] == TEXT
        assert figure["described_by"].endswith("#eye")
        assert bench.ingest().counts.unchanged == 2
        assert server.count == 1
        bench.forget(document.id)
        files = [f for f in (folder / ".ragwright").rglob("*") if f.is_file()]
        assert not [f for f in files if TEXT.encode() in f.read_bytes()]
        assert not bench.project.replies.forget(source=document.id)
        bench.ingest()
        assert server.count == 2  # nothing of it was kept


def test_control_characters_of_a_reply_are_left_out(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    server.play("A red\x00 \x1b[31mvalve\x07 of\u200f steel.\ud800")
    folder = make_project(settings(server), **{"pump.html": page(drawing(90))})
    with Workbench.open(folder) as bench:
        bench.ingest()
        (figure,) = figures(bench)
    assert figure["description"] == "A red [31mvalve of steel.\ufffd"


def test_an_index_of_the_same_figures_asks_nothing_again(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(settings(server), **{"a.html": page(drawing(90), drawing(80))})
    with Workbench.open(folder) as bench:
        bench.ingest()
        bench.clear_replies()
    with Workbench.open(folder, Session(("chunk.size=30", "chunk.overlap=0"))) as bench:
        assert bench.forecast_ingest().calls is None
        bench.ingest()
        heads = [hit.head for hit in bench.retrieve("zirconium", 9).hits]
        assert len(heads) == 2
    assert server.count == 2
    with Workbench.open(folder, Session(("ingest.image_model=''",))) as bench:
        bench.ingest()  # an index without descriptions, which are not shown with it
        assert not bench.retrieve("zirconium", 9).hits
        assert all("description" not in figure for figure in figures(bench))


def test_a_figure_that_fails_costs_its_description_only_and_is_asked_again(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    good, bad, mute = drawing(90), drawing(80), drawing(70)

    def script(request: ServerRequest) -> Reply:
        (image,) = images_of(request)
        if image == bad:
            return Reply(error="content policy", status=400)
        return Reply("") if image == mute else Reply(TEXT)

    server.play(script)
    folder = make_project(settings(server), **{"a.html": page(good, bad, mute)})
    with Workbench.open(folder) as bench:
        report = bench.ingest()
        assert (report.counts.added, report.failures) == (1, ())
        assert [failure.warning for failure in report.warnings] == [True, True]
        texts = [str(failure.error) for failure in report.warnings]
        assert "'Drawing 2' has no description" in texts[0]
        assert "content policy" in texts[0]
        assert "empty" in texts[1]
        assert "asks again" in texts[1]
        snapshot = bench.project.store.snapshot(bench.project.pair)
        again = bench.ingest()
        assert (again.counts.changed, len(again.warnings)) == (0, 2)
        assert bench.project.store.snapshot(bench.project.pair) == snapshot
        server.play("A photo of a cat.")
        before = server.count
        assert bench.ingest().counts.changed == 1
        assert server.count == before + 2
        assert "cat" in bench.retrieve("cat", 1).hits[0].head.figures  # type: ignore[union-attr]
        assert bench.ingest().counts.unchanged == 1
        assert server.count == before + 2


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        (Reply(error="this model takes no image_url", status=400), 4),  # three and the sample
        (Reply(error="no such model", status=404), 4),
        (Reply(malformed="html"), 20),  # each of them five times
    ],
)
def test_a_model_that_answers_nothing_is_given_up(
    make_project: MakeProject, server: ScriptedServer, reply: Reply, calls: int
) -> None:
    server.play(reply)
    folder = make_project(
        settings(server), **{f"{n}.html": page(drawing(n), drawing(n + 40)) for n in range(1, 9)}
    )
    with Workbench.open(folder) as bench:
        report = bench.ingest()
        assert (report.counts.added, report.failures) == (8, ())
        assert server.count == calls
        warning = str(report.warnings[-1].error)
        assert "2 figures have no description" in warning
        assert "described no image" in warning
        server.play(TEXT)
        assert bench.ingest().counts.changed == 8
        assert len(figures(bench)) == 16
        assert all(figure["description"] == TEXT for figure in figures(bench))


def test_a_slow_model_passes_its_time_limit_and_the_ingest_goes_on(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    server.play(Reply(TEXT, delay=3))
    folder = make_project(
        settings(server).replace("timeout: 5", "timeout: 0.2"), **{"a.html": page(drawing(9))}
    )
    with Workbench.open(folder) as bench:
        report = bench.ingest()
    assert report.counts.added == 1
    assert "timeout" in str(report.warnings[0].error)


@pytest.mark.parametrize(
    ("setting", "error", "message"),
    [
        ("ingest.image_model=extractive", ConfigError, "chat"),
        ("ingest.image_model=openai:gpt-4o", MissingKeyError, "OPENAI_API_KEY"),
        ("ingest={image_model: 'http://127.0.0.1:1/v1#m', figures: false}", ConfigError, "keeps"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    make_project: MakeProject,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    folder = make_project(**{"a.html": page(drawing(9))})
    with pytest.raises(error, match=message), Workbench.open(folder, Session((setting,))) as bench:
        bench.ingest()


def test_the_budget_stops_it_and_what_was_paid_is_used(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    shades = range(10, 22)
    folder = make_project(settings(server), **{"a.html": page(*map(drawing, shades))})
    with Workbench.open(folder, Session(max_cost=3.0)) as bench, pytest.raises(BudgetStopped):
        bench.ingest()
    paid = server.count
    assert 0 < paid < len(shades)
    with Workbench.open(folder) as bench:
        assert bench.ingest().counts.added == 1
    assert server.count == len(shades)


def test_an_ingest_that_was_killed_pays_for_no_image_twice(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    server.play(Reply(TEXT, delay=0.05))
    shades = range(10, 40)
    folder = make_project(settings(server), **{"a.html": page(*map(drawing, shades))})
    code = f"from ragwright import Workbench\nwith Workbench.open({str(folder)!r}) as b: b.ingest()"
    process = subprocess.Popen([sys.executable, "-c", code])
    ends = time.monotonic() + 60
    while server.count < 6 and time.monotonic() < ends:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with Workbench.open(folder) as bench:
        assert bench.ingest().counts.added == 1
    sent = [hashlib.sha256(images_of(r)[0]).hexdigest() for r in server.requests]
    assert len(set(sent)) == len(shades)
    assert len(sent) <= len(shades) + 1  # at most the call that was under way


def test_a_drawing_has_its_size() -> None:
    assert image_size(drawing(9)) == (160, 120)
