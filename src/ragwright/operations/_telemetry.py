"""Events of the audit log as log records of OpenTelemetry.

On where OpenTelemetry's own variables name where log records go (``OTEL_EXPORTER_OTLP_ENDPOINT`` or
``OTEL_EXPORTER_OTLP_LOGS_ENDPOINT``). Questions are left out, unless
``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is ``true``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ..core import require
from ._events import Event

_ADDRESSES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PURPOSE = "sending the audit log"


class EventExport:
    """Sends events in the background, where that is on; else it does nothing and costs nothing."""

    def __init__(self) -> None:
        self._provider: Any = None
        self._content = os.environ.get(_CONTENT, "").lower() == "true"
        if any(os.environ.get(name) for name in _ADDRESSES):
            self._provider = _exporting_provider()
            self._logger = self._provider.get_logger("ragwright.audit")

    def send(self, events: Sequence[Event]) -> None:
        """Queue events; an address that does not answer delays nobody."""
        if self._provider is None:
            return
        logs = require("opentelemetry._logs", "otel", _PURPOSE)
        for event in events:
            at = int(datetime.fromisoformat(event.at).timestamp() * 1e9)
            failed = event.outcome in ("refused", "failed") or event.kind == "sign-in failed"
            severity = logs.SeverityNumber.WARN if failed else logs.SeverityNumber.INFO
            self._logger.emit(
                logs.LogRecord(
                    timestamp=at,
                    observed_timestamp=at,
                    severity_number=severity,
                    severity_text=severity.name,
                    event_name=f"ragwright.audit.{event.kind.replace(' ', '_').replace('-', '_')}",
                    body=event.kind,
                    attributes=self._attributes(event),
                )
            )

    def _attributes(self, event: Event) -> dict[str, Any]:
        values: dict[str, Any] = {
            "enduser.id": event.who,
            "enduser.role": event.role,
            "client.address": event.origin,
            "ragwright.request_id": event.request,
            "ragwright.configuration": event.configuration,
            "ragwright.action": event.action,
            "ragwright.outcome": event.outcome,
            "ragwright.subject": event.subject,
            "ragwright.documents": list(event.documents),
            "ragwright.question": event.question if self._content else "",
        }
        return {name: value for name, value in values.items() if value}

    def close(self) -> None:
        """Send what waits to be sent; safe to call twice."""
        if self._provider is not None:
            provider, self._provider = self._provider, None
            provider.shutdown()


def _exporting_provider() -> Any:
    sdk = require("opentelemetry.sdk._logs", "otel", _PURPOSE)
    export = require("opentelemetry.sdk._logs.export", "otel", _PURPOSE)
    http = require("opentelemetry.exporter.otlp.proto.http._log_exporter", "otel", _PURPOSE)
    resources = require("opentelemetry.sdk.resources", "otel", _PURPOSE)
    resource = resources.Resource.create({"service.name": "ragwright"})
    provider = sdk.LoggerProvider(resource=resource)
    provider.add_log_record_processor(export.BatchLogRecordProcessor(http.OTLPLogExporter()))
    return provider
