"""A separate process that runs one pattern after another; the kernel ends it when one hangs.

Started as a script, without the package: nothing but the standard library is imported. It reads
requests from standard input (eight bytes of length, then a pickle) and answers on standard
output in the same way. A file of eight bytes, shared with the parent process, holds the number of
the present row.
"""

from __future__ import annotations

import mmap
import pickle
import re
import signal
import sys
from typing import BinaryIO


def serve(source: BinaryIO, answers: BinaryIO, row: mmap.mmap) -> None:
    """Answer requests until there are no more.

    A request is (pattern, flags, tokens, seconds, texts). Tokens are None to search, which answers
    with a bool per text; ``starts``, which answers with the positions of the matches per text; or
    literals (str) and numbers of groups (int) to replace every match by, which answers with a text
    per text. A row that takes more than so many seconds of processor time ends the process by
    SIGPROF, even in the middle of a match.
    """
    while head := source.read(8):
        told = source.read(int.from_bytes(head, "big"))
        find, flags, tokens, seconds, texts = pickle.loads(told)  # noqa: S301 - of our starter
        found = re.compile(find, flags)

        def replaced(match: re.Match[str], tokens: tuple[str | int, ...] = tokens) -> str:
            return "".join(t if isinstance(t, str) else match[t] or "" for t in tokens)

        made: list[bool | str | list[int]] = []
        for at, text in enumerate(texts):
            row[:8] = at.to_bytes(8, "big")
            signal.setitimer(signal.ITIMER_PROF, seconds)
            if tokens is None:
                made.append(bool(found.search(text)))
            elif tokens == "starts":
                made.append([match.start() for match in found.finditer(text)])
            else:
                made.append(found.sub(replaced, text))
        signal.setitimer(signal.ITIMER_PROF, 0)
        answer = pickle.dumps(made)
        answers.write(len(answer).to_bytes(8, "big") + answer)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    serve(sys.stdin.buffer, sys.stdout.buffer, mmap.mmap(int(sys.argv[1]), 8))
