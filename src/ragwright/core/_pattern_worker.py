"""The side of a worker process: answers requests; run as a script, it runs patterns over texts.

Nothing but the standard library is imported, so that a worker for patterns starts without the
package. A file of eight bytes, shared with the parent process, holds the number of the present
text.
"""

from __future__ import annotations

import mmap
import os
import pickle
import re
import signal
import sys
from collections.abc import Callable
from typing import Any


def serve_requests(answer: Callable[[Any], object]) -> None:
    """Run as a worker: answer requests from standard input until there are no more.

    A request is eight bytes of length and a pickle, an answer likewise on standard output; other
    output of the process is discarded.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    answers = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device
        os.dup2(nowhere.fileno(), 1)
    requests = sys.stdin.buffer
    while head := requests.read(8):
        request = requests.read(int.from_bytes(head, "big"))
        reply = pickle.dumps(answer(pickle.loads(request)))  # noqa: S301 - of the parent process
        answers.write(len(reply).to_bytes(8, "big") + reply)
        answers.flush()


def serve_patterns(step: mmap.mmap) -> None:
    """Run as a worker for patterns; ``step`` holds the number of the present text.

    A request is (pattern, flags, tokens, seconds, texts). Tokens are None to search, which answers
    with a bool per text; ``starts``, which answers with the positions of the matches per text; or
    literals (str) and numbers of groups (int) to replace every match by, which answers with a text
    per text. A text that takes more than so many seconds of processor time ends the process by
    SIGPROF, even in the middle of a match.
    """

    def answer(request: Any) -> list[bool | str | list[int]]:
        find, flags, tokens, seconds, texts = request
        pattern = re.compile(find, flags)

        def replaced(match: re.Match[str]) -> str:
            return "".join(t if isinstance(t, str) else match[t] or "" for t in tokens)

        results: list[bool | str | list[int]] = []
        for at, text in enumerate(texts):
            step[:8] = at.to_bytes(8, "big")
            signal.setitimer(signal.ITIMER_PROF, seconds)
            if tokens is None:
                results.append(bool(pattern.search(text)))
            elif tokens == "starts":
                results.append([match.start() for match in pattern.finditer(text)])
            else:
                results.append(pattern.sub(replaced, text))
        signal.setitimer(signal.ITIMER_PROF, 0)
        return results

    serve_requests(answer)


if __name__ == "__main__":
    serve_patterns(mmap.mmap(int(sys.argv[1]), 8))
