"""Progress of embedding: chunks done of chunks known, a rate, and no estimate too early."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from terminal import on_terminal

from ragwright import Workbench
from ragwright.project import IngestProgress

SLOW = """\
import time

import numpy as np

from ragwright.models import Embedder


class Slow(Embedder):
    identity = "slow/1"
    dimensions = 4

    def embed_batch(self, texts):
        time.sleep(SECONDS * len(texts))
        return np.array([[1.0, len(text), text.count("e"), 1.0] for text in texts], np.float32)
"""


def slow_project(folder: Path, files: int, seconds: float) -> Path:
    """Files of about 20 chunks each, and an embedder that needs some seconds for each chunk."""
    (folder / "docs").mkdir()
    for number in range(files):
        text = "\n\n".join(
            f"Paragraph {n} of file {number} speaks of valve {n * 7 + number} and its limits, of "
            f"pressure {n + 3} and of the pump that feeds house {n}."
            for n in range(20)
        )
        (folder / f"docs/{number}.txt").write_text(text, "utf-8")
    (folder / "slowly.py").write_text(SLOW.replace("SECONDS", str(seconds)), "utf-8")
    settings = "{backend: 'slowly:Slow'}"
    (folder / "ragwright.yaml").write_text(
        f"sources: [docs]\nchunk: {{size: 30, overlap: 0}}\nembed: {{model: 'own:slow'}}\n"
        f"models: {{'own:slow': {settings}}}\n",
        "utf-8",
    )
    return folder


@pytest.mark.slow
def test_chunks_are_counted_as_they_are_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = slow_project(tmp_path, files=20, seconds=0.01)
    monkeypatch.syspath_prepend(str(folder))
    seen: list[tuple[int, int, bool, int]] = []
    done = threading.Event()

    def watch(progress: IngestProgress) -> None:
        def look() -> None:
            while not done.wait(0.05):
                row = (progress.embedded, progress.texts, progress.all_read)
                seen.append((*row, progress.bytes_done))

        threading.Thread(target=look, daemon=True).start()

    with Workbench.open(folder) as bench:
        report = bench.ingest(on_start=watch)
        done.set()
    counts = [row[0] for row in seen]
    assert counts == sorted(counts)
    assert [row[3] for row in seen] == sorted(row[3] for row in seen)
    # Not all at once at the end: batches of 64 texts are counted one by one.
    assert len(set(counts)) >= 0.5 * report.embedded / 64
    assert all(embedded <= texts for embedded, texts, *_ in seen)
    known = [texts for _, texts, whole, *_ in seen if whole]
    assert set(known) <= {report.embedded}


def test_an_estimate_takes_files_that_are_not_read_yet_into_account() -> None:
    progress = IngestProgress(bytes_total=1000, bytes_done=10, texts=100)
    first = progress.expected
    assert first is None
    progress.bytes_done = 250
    assert progress.expected == 400
    whole = IngestProgress(bytes_total=1000, bytes_done=1000, texts=390, all_read=True)
    assert whole.expected == 390


@pytest.mark.slow
def test_a_person_sees_chunks_done_of_chunks_known(tmp_path: Path) -> None:
    folder = slow_project(tmp_path, files=20, seconds=0.02)
    seen = on_terminal(folder, "ingest")
    lines = re.findall(r"([\d,]+)(?:/([\d,]+))? chunks embedded([^\r]*)", seen)
    done = [int(line[0].replace(",", "")) for line in lines]
    assert done == sorted(done)
    assert len(set(done)) > 2
    totals = {line[1] for line in lines if line[1]}
    assert len(totals) == 1
    assert "left" not in lines[0][2]
    assert any("chunks/s" in line[2] for line in lines)
