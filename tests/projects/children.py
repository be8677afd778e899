"""Processes for tests that kill or race them: forked from one that has imported the program."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

# These imports are what the fork server preloads: no child pays for them again.
import hypothesis  # noqa: F401
import openai  # noqa: F401
import optuna  # noqa: F401
import pytest  # noqa: F401

from ragwright.app import command_line, main  # noqa: F401
from ragwright.flow import run_job  # noqa: F401
from ragwright.jobs import promote  # noqa: F401
from ragwright.models import Models, model_handlers  # noqa: F401
from ragwright.workbench import Workbench  # noqa: F401

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload([__name__])
if "multiprocessing.forkserver" in sys.orig_argv[-1]:
    late = ("experiment", "report", "jobs", "records", "drafting", "testsets", "measure", "audit")
    for room in (*late, "testing"):
        module = importlib.import_module(f"ragwright.{room}")
        for offered in module.__all__:
            getattr(module, offered)  # rooms load their parts when they are named
    gc.freeze()  # what is loaded is never looked through again, so its memory stays shared


def started(work: Callable[..., None], *words: Any) -> BaseProcess:
    here = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    with mock.patch.dict(os.environ, PYTHONPATH=here):  # the server must find this module
        forkserver.ensure_running()
    process = context.Process(target=work, args=words)
    process.start()
    return process


@contextmanager
def child(work: Callable[..., None], *words: Any) -> Iterator[Connection]:
    """What ``work(sender, *words)`` sends, from a process that is killed (-9) at the end."""
    receiver, sender = context.Pipe(duplex=False)
    process = started(work, sender, *words)
    sender.close()
    try:
        yield receiver
    finally:
        process.kill()
        process.join()
        receiver.close()


def command(folder: Path, *words: str) -> None:
    """Become a command in a folder; its standard output goes to ``printed`` there."""
    with chdir(folder), Path("printed").open("wb") as printed:
        os.dup2(printed.fileno(), 1)
        sys.argv = ["ragwright", *words]
        main()


def printed(
    folder: Path, words: Sequence[str], environment: Mapping[str, str]
) -> CompletedProcess[str]:
    """What ``python -m ragwright WORDS`` prints in a folder, without the time of its imports."""
    with TemporaryDirectory() as place:
        files = [Path(place) / name for name in ("stdout", "stderr")]
        process = started(_printing, folder, words, {**environment}, files)
        process.join()
        texts = [file.read_text("utf-8") for file in files]
    assert process.exitcode is not None
    return CompletedProcess([*words], process.exitcode, *texts)


def _printing(
    folder: Path, words: Sequence[str], environment: Mapping[str, str], files: Sequence[Path]
) -> None:
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    path = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [str(Path.cwd()), *filter(None, path)]  # as `-m` puts them there
    sys.argv = ["ragwright", *words]
    runpy.run_module("ragwright", run_name="__main__", alter_sys=True)
