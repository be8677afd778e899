"""From feedback to gold: a project is served, readers rate over HTTP, a person reviews, rows count.

python examples/feedback/feedback.py                 # over the guide of this repository
python examples/feedback/feedback.py FOLDER          # over any folder of documents

The documents, the server, the answers, the ledger and every command are real. The readers are
simulated: of each question they know the sentence that answers it (`ragwright synth` made the
question of that sentence), but one rating in five is wrong, and three readers in ten accept without
reading. The person who reviews is simulated too, and is never wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from ragwright.core import GoldSpan, Row
from ragwright.testsets import TestsetReview, is_candidate, read_rows

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"
READERS, WRONG, LAZY = 5, 0.2, 0.3


def ragwright(folder: Path, *words: str, typed: str = "") -> None:
    """Run a command in the project and show it; 100 is a verdict, not a failure."""
    print(f"\n$ ragwright {' '.join(words)}", flush=True)
    command = [sys.executable, "-m", "ragwright", *words]
    done = subprocess.run(command, cwd=folder, input=typed, text=True, check=False)
    if done.returncode not in (0, 100):
        raise SystemExit(done.returncode)


def overlap(first: GoldSpan, second: GoldSpan) -> bool:
    """True if two spans share characters of a document."""
    same = first.document_id == second.document_id
    return same and first.start < second.end and second.start < first.end


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """`ragwright serve` in the project; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    print(f"\n$ ragwright serve --port {port}", flush=True)
    command = [sys.executable, "-m", "ragwright", "serve", "--port", str(port)]
    server = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urlopen(f"{address}/health", timeout=5).close()
                break
            except (URLError, OSError):
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(30)


def post(address: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send JSON, return JSON."""
    data = json.dumps(body).encode()
    request = Request(address + path, data, {"content-type": "application/json"})
    with urlopen(request, timeout=60) as reply:
        answer: dict[str, Any] = json.load(reply)
    return answer


def readers_rate(address: str, rows: list[Row], chance: random.Random) -> None:
    """Ask every question once for each reader, who rates the answer that they get."""
    for row in rows:
        for _ in range(READERS):
            question = {"messages": [{"role": "user", "content": row.user_input}]}
            reply = post(address, "/v1/chat/completions", question)
            cited = [
                GoldSpan(c["document_id"], c["start"], c["end"])
                for c in reply["ragwright"]["citations"]
            ]
            right = any(overlap(span, gold) for span in cited for gold in row.reference_spans)
            accepts = chance.random() < LAZY or right != (chance.random() < WRONG)
            body: dict[str, Any] = {
                "id": reply["id"],
                "verdict": "accepted" if accepts else "rejected",
            }
            if not accepts and not right and row.reference:
                body["correction"] = row.reference
            post(address, "/v1/feedback", body)


def person_reviews(path: Path, known: dict[str, Row]) -> None:
    """Accept a candidate whose passages or correction are right; reject any other."""
    review = TestsetReview(path, "ann")
    for row in review.open:
        truth = known[row.user_input]
        right = any(
            overlap(span, gold) for span in row.reference_spans for gold in truth.reference_spans
        )
        corrected = row.reference and row.reference == truth.reference
        review.decide(row, "accepted" if right or corrected else "rejected")


def main() -> None:
    """Go the whole way in a temporary project."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("documents", type=Path, nargs="?", default=GUIDE)
    parser.add_argument("--questions", type=int, default=120)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        shutil.copytree(options.documents, folder / "docs")
        ragwright(folder, "init", "-q", "--source", "docs/")
        ragwright(folder, "ingest", "-q")
        ragwright(folder, "synth", "-q", "-o", "asked.jsonl", "-n", str(options.questions))
        rows = list(read_rows(folder / "asked.jsonl"))
        with served(folder) as address:
            readers_rate(address, rows, random.Random(7))
        # collects; nobody answers at the prompt, so that every candidate still waits
        ragwright(folder, "review", "--feedback")
        path = folder / "testsets" / "feedback.jsonl"
        waiting = sum(map(is_candidate, read_rows(path)))
        person_reviews(path, {row.user_input: row for row in rows})
        decided = read_rows(path)
        kept = [row for row in decided if row.metadata["review"] != "rejected"]
        print(f"\nann kept {len(kept)} of {waiting} candidates; the first:")
        print(f"  {kept[0].user_input}\n  gold: {kept[0].reference or kept[0].reference_spans[0]}")
        ragwright(folder, "review", "testsets/feedback.jsonl")
        ragwright(folder, "eval", "--testset", "testsets/feedback.jsonl", "--retrieval-only")


if __name__ == "__main__":
    main()
