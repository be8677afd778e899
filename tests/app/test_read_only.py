"""A project that cannot be written: it is read and asked, and what would be kept is told."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import ragwright as called

from ragwright.testing import ScriptedServer

JOB = "jobs:\n  nightly:\n    steps: [records history]\n"
DRAFT = ("draft", "--client", "Maya Delgado", "--ask", "donation", "-n", "2", "-q")
FEW = ("--examples", "3", "--pool", "5")


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("1. Chip in now.\n2. Please help us today.") as running:
        yield running


@pytest.fixture(scope="module")
def written(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with records, a batch of drafts, a stored answer and a job that was run."""
    folder = tmp_path_factory.mktemp("project")
    called(folder, "init", "--template", "records")
    file = folder / "ragwright.yaml"
    model = f'answer:\n  model: "{server.url}#scripted"\n'
    text = file.read_text("utf-8").replace("answer:\n", model, 1)
    file.write_text(text.replace("jobs:\n", JOB, 1), "utf-8")
    called(folder, "records", "refresh", "-q")
    called(folder, "ask", "Who asks for hope?", "-q", "--json")
    called(folder, *DRAFT, *FEW)
    called(folder, "job", "run", "nightly", "-q")
    row = '{"question": "hope?", "answer": "yes", "contexts": ["hope"], "reference": "yes"}\n'
    (folder / "rows.jsonl").write_text(12 * row, "utf-8")
    called(folder, "score", "rows.jsonl", "--measures", "TokenF1", "--name", "s1", "-q")
    return folder


@pytest.fixture
def project(written: Path) -> Iterator[Path]:
    with nothing_written(written):
        yield written


@contextmanager
def nothing_written(folder: Path) -> Iterator[None]:
    """A folder that may be read and not written, by root neither."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path in modes:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with bound_by_modes():
            yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """Root without the right to pass over modes (Linux: CAP_DAC_OVERRIDE), in this thread."""
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip("root may write everywhere")
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then their upper halves
    assert libc.capget(header, held) == 0
    fewer = (ctypes.c_uint32 * 6)(*held)
    fewer[0] &= ~0b110
    assert libc.capset(header, fewer) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "retrieve hope -k 1",
        "outputs list",
        "outputs show 1",
        "job list",
        "job history",
        "records check",
        "records show gold --limit 1",
        "records history",
        "cache show",
        "compare s1 s1",
        "gate s1 --rule TokenF1>=0.1",
        "report s1 --json",
        "doctor",
    ],
)
def test_what_only_reads_works(project: Path, line: str) -> None:
    done = called(project, *line.split())
    assert done.stdout.strip()
    assert "error" not in done.stderr


@pytest.mark.slow
def test_a_stored_answer_is_given_again_and_a_new_one_is_not_kept(
    project: Path, server: ScriptedServer
) -> None:
    known = json.loads(called(project, "ask", "Who asks for hope?", "-q", "--json").stdout)
    assert known["answers"][0]["cached"]
    assert not any("kept" in note for note in known["answers"][0]["notes"])
    before = len(server.requests)
    for _ in range(2):  # as nothing is kept, it is asked for again
        new = json.loads(called(project, "ask", "Who asks for water?", "-q", "--json").stdout)
        [note] = [one for one in new["answers"][0]["notes"] if "are not kept" in one]
        assert "replies.sqlite cannot be written" in note
    assert len(server.requests) == before + 2


@pytest.mark.slow
def test_a_draft_that_cannot_be_stored_is_refused_before_it_is_paid_for(
    project: Path, server: ScriptedServer
) -> None:
    before = len(server.requests)
    done = called(project, *DRAFT, *FEW, "--tone", "urgent", code=1)
    assert "ledger.sqlite cannot be written" in done.stderr
    assert "where: .ragwright/data/ledger.sqlite" in done.stderr
    assert "do: give this user the right to write in the folder" in done.stderr
    assert len(server.requests) == before
    done = called(project, *DRAFT, *FEW, "--tone", "urgent", "--no-save", "--json")
    made = json.loads(done.stdout)
    assert made["texts"]
    assert any("are not kept" in note for note in made["notes"])
    assert len(server.requests) > before


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "records refresh",
        "outputs feedback 1.1 --accept",
        "cache clear",
        "job run nightly",
        "forget record:1",
    ],
)
def test_what_writes_says_what_where_and_what_to_do(project: Path, line: str) -> None:
    done = called(project, *line.split(), code=1)
    assert "cannot be written" in done.stderr or "cannot read or write" in done.stderr
    assert "where: " in done.stderr
    assert "do: " in done.stderr


def test_the_doctor_says_that_nothing_can_be_kept(project: Path) -> None:
    checks = json.loads(called(project, "doctor", "--json").stdout)["checks"]
    told = [check["text"] for check in checks if check["topic"] == "folder"]
    assert [text.split(":")[0] for text in told] == [
        ".ragwright/data cannot be written",
        ".ragwright/cache cannot be written",
    ]


def test_a_project_that_was_never_used_reads_as_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n", "utf-8")
    with nothing_written(tmp_path):
        assert called(tmp_path, "outputs", "list").stdout == "no outputs\n"
        done = called(tmp_path, "retrieve", "hope", code=1)
        assert "nothing" in done.stderr
        assert "ragwright ingest" in done.stderr
