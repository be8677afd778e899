"""All errors that ragwright raises deliberately, in one tree.

RagwrightError
├── ConfigError
│   └── PluginError
├── MissingExtraError
├── SourceError
│   ├── EmptySourceError
│   ├── EncryptedSourceError
│   ├── FetchError
│   │   └── AddressRefusedError
│   ├── MalformedSourceError
│   │   └── UnclearGroupsError
│   └── UnsupportedSourceError
├── ChunkError
├── EngineError
├── StoreError
│   ├── DuplicateIdError
│   ├── SchemaVersionError
│   ├── SnapshotGoneError
│   ├── StoreBusyError
│   ├── StoreDamagedError
│   ├── StoreFullError
│   └── StoreUnreachableError
├── ModelError
│   ├── MissingKeyError
│   ├── ModelRefusedError
│   │   └── PromptTooLongError
│   ├── ModelReplyError
│   ├── ModelTimeoutError
│   └── ModelUnavailableError
│       ├── ModelUnreachableError
│       └── RateLimitedError
├── FlowError
│   ├── GatherError
│   └── UnhandledRequestError
├── StoppedError
│   ├── BudgetStopped
│   └── Interrupted
├── RetrieveError
│   ├── DatabaseError
│   │   └── StatementError
│   └── FilterError
├── PromptError
├── SystemCallError
├── TestsetError
├── StudyError
├── MeasureError
├── RecordsError
│   ├── DuplicateKeyError
│   └── PatternError
├── TrainingError
└── JobError
    └── NoticeError

Each error says what was wrong, where (file, line, row, page) and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence


class RagwrightError(Exception):
    """The root of all errors that ragwright raises.

    Args:
        what: What was wrong, one sentence.
        where: Place of the fault: a file, ``file:line``, a row, a page, an address.
        hint: What the reader can do about it.
    """

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """The problem, its place and the remedy, one line each."""
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  do: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by attributes, so that errors cross process borders whole."""
        return (_unpickled_error, (type(self), dict(self.__dict__), self.args))


def _unpickled_error(
    kind: type[RagwrightError], state: dict[str, object], args: tuple[object, ...]
) -> RagwrightError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(RagwrightError):
    """A project file, study file or setting is wrong."""


class PluginError(ConfigError):
    """A ``module:object`` cannot be loaded or does not implement the interface."""


class MissingExtraError(RagwrightError):
    """An optional dependency is not installed; the hint holds the install line."""


class SourceError(RagwrightError):
    """A source cannot be read."""


class EmptySourceError(SourceError):
    """A source holds no text: an empty file, or a scan without a text layer."""


class EncryptedSourceError(SourceError):
    """A source is protected by a password."""


class FetchError(SourceError):
    """An address cannot be fetched.

    Args:
        status: HTTP status of the reply, None where there was none.
        retry_after: Seconds the server asks to wait, None if it does not say.
        retryable: True where trying again may help.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.status = status
        self.retry_after = retry_after
        self.retryable = retryable


class AddressRefusedError(FetchError):
    """An address, or a redirect, leads to a private network and is not allowed."""


class MalformedSourceError(SourceError):
    """A source is damaged, truncated, or not what its name says."""


class UnclearGroupsError(MalformedSourceError):
    """The groups of a document's readers cannot be read; its stored version is closed."""


class UnsupportedSourceError(SourceError):
    """No reader knows this kind of source."""


class ChunkError(RagwrightError):
    """A document cannot be cut into chunks as configured."""


class StoreError(RagwrightError):
    """The store cannot be opened, read or written."""


class DuplicateIdError(StoreError):
    """Two different documents have the same id."""


class SchemaVersionError(StoreError):
    """A store was written by another schema version."""


class SnapshotGoneError(StoreError):
    """A pinned snapshot is no longer in the store."""


class StoreBusyError(StoreError):
    """Another process holds the store longer than the waiting time."""


class StoreDamagedError(StoreError):
    """A stored file is damaged, or is not what its name says."""


class StoreFullError(StoreError):
    """The disk is full; what was committed before is intact."""


class StoreUnreachableError(StoreError):
    """The server of a shared database cannot be reached, or the connection to it was lost."""


class ModelError(RagwrightError):
    """A model server or a local model failed."""


class MissingKeyError(ModelError):
    """The environment holds no key for a provider, or the provider rejects it."""


class ModelRefusedError(ModelError):
    """A server rejects the request (unknown model, bad parameter, too long)."""


class PromptTooLongError(ModelRefusedError):
    """A server reports that the prompt does not fit the model's context window."""


class ModelReplyError(ModelError):
    """A reply does not follow the protocol: not JSON, no choices, cut off."""


class ModelTimeoutError(ModelError):
    """No reply within the time limit; the call may have been billed."""


class ModelUnavailableError(ModelError):
    """A server cannot be reached or fails (5xx); trying again may help."""


class ModelUnreachableError(ModelUnavailableError):
    """No connection to a server could be opened: it is down, or its address is wrong."""


class RateLimitedError(ModelUnavailableError):
    """A server asks to slow down (429).

    Args:
        retry_after: Seconds the server asks to wait, None if it does not say.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.retry_after = retry_after


class FlowError(RagwrightError):
    """A flow was written or run incorrectly."""


class GatherError(FlowError):
    """Some flows of a gather failed.

    Args:
        outcomes: One entry per child flow in order: its result, or the error it ended with.
    """

    def __init__(self, what: str, *, outcomes: Sequence[object] = ()) -> None:
        super().__init__(what)
        self.outcomes = tuple(outcomes)

    @property
    def errors(self) -> tuple[BaseException, ...]:
        """The errors among the outcomes, in order."""
        return tuple(o for o in self.outcomes if isinstance(o, BaseException))


class UnhandledRequestError(FlowError):
    """The runner has no handler for a kind of request."""


class StoppedError(RagwrightError):
    """Work was stopped cleanly before its end; what was done is kept."""


class BudgetStopped(StoppedError):
    """The budget does not cover the next call."""


class Interrupted(StoppedError):
    """The user stopped the work (Ctrl-C)."""


class RetrieveError(RagwrightError):
    """A query cannot be answered by this index."""


class DatabaseError(RetrieveError):
    """A configured SQL database cannot be opened or does not answer."""


class StatementError(DatabaseError):
    """A SQL statement is refused before it runs, or the database rejects or stops it."""


class FilterError(RetrieveError):
    """A metadata filter names an unknown field or value, or is not a valid filter.

    Args:
        field: Unknown field, or the field of the unknown values; empty for other faults.
        values: The unknown values as written; empty if the field is unknown.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        field: str = "",
        values: Sequence[str] = (),
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.field = field
        self.values = tuple(values)


class PromptError(RagwrightError):
    """A prompt, a prompt part or a persona is wrong."""


class SystemCallError(RagwrightError):
    """A system under test failed, took too long, or returned what cannot be read.

    Args:
        status: HTTP status of its reply, None where there was none.
        retry_after: Seconds that it asks to wait, None where it does not say.
        retryable: True where trying again may help.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        status: int | None = None,
        retry_after: float | None = None,
        retryable: bool = False,
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.status = status
        self.retry_after = retry_after
        self.retryable = retryable


class TestsetError(RagwrightError):
    """A testset, or a file of rows, cannot be used."""

    __test__ = False  # the name is the field's; pytest must not collect it


class StudyError(RagwrightError):
    """A study cannot be run, or its stored results cannot be used."""


class MeasureError(RagwrightError):
    """A measure is unknown, misspelt, or given the wrong parameters."""


class EngineError(RagwrightError):
    """Work on a cluster failed: the cluster itself, a node, or the storage that nodes share."""


class RecordsError(RagwrightError):
    """Rows, or the settings under ``records/``, cannot be used."""


class DuplicateKeyError(RecordsError):
    """Two different rows of one source share a key."""


class PatternError(RecordsError):
    """A pattern does not compile, or took too long on a row."""


class TrainingError(RagwrightError):
    """Training a model failed; what was in use before is as it was."""


class JobError(RagwrightError):
    """A job is unknown, is running already, or failed."""


class NoticeError(JobError):
    """A notice about a job could not be sent."""
