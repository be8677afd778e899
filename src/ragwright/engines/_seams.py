"""The interfaces of the room: work, the tasks that it is done on, engines that do it.

The same work object is called by a thread of this process or by a worker of a cluster. A worker
reads and writes files, on storage that it shares with the driver; what it returns is small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Generic, Protocol, TypeVar


class Task(Protocol):
    """One piece of work; picklable, with paths that are valid in other processes."""

    @property
    def needs(self) -> Sequence[Path]:
        """Files and folders that it reads."""

    @property
    def target(self) -> Path:
        """File that it may write; no other task has the same one."""


class Result(Protocol):
    """The result of a task; picklable, and small."""

    @property
    def target(self) -> Path | None:
        """The file written, None if none was."""

    @property
    def rows(self) -> int:
        """Rows or documents worked on."""


T = TypeVar("T", bound=Task)
R = TypeVar("R", bound=Result)


class Work(ABC, Generic[T, R]):
    """The work done on each task; picklable, and equal by value.

    Attributes:
        advice: What to do if workers run out of memory, for the message.
    """

    advice: str = "give the nodes more memory"

    @abstractmethod
    def carry_out(self, task: T) -> R:
        """The result of a task.

        Raises:
            RagwrightError: It cannot be done; the engine raises the same error to its caller.
        """

    def opened(self) -> AbstractContextManager[None]:
        """Resources of a worker while it does this work; none here."""
        return nullcontext()


class Engine(ABC):
    """Does work on many tasks; a context manager."""

    @abstractmethod
    def run(self, work: Work[T, R], tasks: Iterable[T]) -> Iterator[R]:
        """Results in the order of the tasks; tasks are read lazily.

        Raises:
            RagwrightError: A task failed; others under way are abandoned.
        """

    def __enter__(self) -> Engine:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release workers."""
        self.close()

    def close(self) -> None:
        """Release workers; safe to call twice."""
