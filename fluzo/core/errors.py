"""The error tree: every failure Fluzo reports has a stable code, an exit status and a retry class.

    FluzoError                 internal_error        70
    |- UsageError              usage                  2
    |- ConfigError             configuration_invalid  3
    |- InputRequired           input_required         4
    |- PermissionRequired      permission_required    4
    |- PermissionDenied        permission_denied      5
    |- BudgetError             budget_exhausted       6
    |- CapacityError           capacity_full          7
    |- ProviderError           provider_protocol      8
    |- OutcomeUnknown          outcome_unknown        9
    |- StorageError            storage_failed        10
    |- WorkspaceError          path_refused          11
    |- ToolError               tool_failed            - (becomes a ToolResult, never an exit)
    `- Cancelled               cancelled            130

Messages and details are for people and are already redacted: what happened, where, what to do next.
Codes are snake_case and never change once released. A task that ended badly (verification_failed,
task_failed) exits with 1 and is a result, not an exception.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

Retry = Literal["never", "safe", "ask"]


class FluzoError(Exception):
    """Root of the tree. `code` may narrow the class's own code, for example `redirect_blocked`."""

    code: str = "internal_error"
    exit_status: ClassVar[int] = 70
    retry: Retry = "never"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str = "",
        detail: Mapping[str, object] | None = None,
        retry: Retry | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.detail: dict[str, object] = dict(detail or {})
        if code is not None:
            self.code = code
        if retry is not None:
            self.retry = retry

    def to_json(self) -> dict[str, object]:
        """The error object of the JSON outputs."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "detail": self.detail}


class UsageError(FluzoError):
    code = "usage"
    exit_status = 2


class ConfigError(FluzoError):
    code = "configuration_invalid"
    exit_status = 3


class InputRequired(FluzoError):
    code = "input_required"
    exit_status = 4


class PermissionRequired(FluzoError):
    code = "permission_required"
    exit_status = 4


class PermissionDenied(FluzoError):
    code = "permission_denied"
    exit_status = 5


class BudgetError(FluzoError):
    code = "budget_exhausted"
    exit_status = 6


class CapacityError(FluzoError):
    code = "capacity_full"
    exit_status = 7


class ProviderError(FluzoError):
    code = "provider_protocol"
    exit_status = 8


class ContextError(ProviderError):
    """What the model must be shown does not fit its window, and could not be made to fit."""

    code = "compaction_failed"


class LoopDetected(BudgetError):
    code = "loop_detected"


class OutcomeUnknown(FluzoError):
    code = "outcome_unknown"
    exit_status = 9


class StorageError(FluzoError):
    code = "storage_failed"
    exit_status = 10


class WorkspaceError(FluzoError):
    code = "path_refused"
    exit_status = 11


class ToolError(FluzoError):
    """A tool could not do what the model asked; the message is written for the model."""

    code = "tool_failed"


class Cancelled(FluzoError):
    code = "cancelled"
    exit_status = 130


EXIT_STATUS_BY_CODE: dict[str, int] = {
    "": 0,
    "verification_failed": 1,
    "task_failed": 1,
    "usage": 2,
    "confirmation_required": 2,
    "not_found": 2,
    "not_permitted": 2,
    "task_ended": 2,
    "control_malformed": 2,
    "configuration_required": 3,
    "configuration_invalid": 3,
    "configuration_conflict": 3,
    "consent_required": 3,
    "permission_required": 4,
    "input_required": 4,
    "permission_denied": 5,
    "budget_exhausted": 6,
    "loop_detected": 6,
    "capacity_full": 7,
    "capacity_timeout": 7,
    "provider_auth": 8,
    "provider_quota": 8,
    "provider_invalid_request": 8,
    "provider_protocol": 8,
    "provider_empty": 8,
    "provider_incomplete": 8,
    "provider_unavailable": 8,
    "provider_timeout": 8,
    "rate_limited": 8,
    "redirect_blocked": 8,
    "context_overflow": 8,
    "compaction_failed": 8,
    "outcome_unknown": 9,
    "task_interrupted": 9,
    "still_stopping": 9,
    "storage_failed": 10,
    "storage_busy": 10,
    "storage_unprotected": 10,
    "schema_too_new": 10,
    "store_damaged": 10,
    "workspace_owned": 11,
    "owner_unreachable": 11,
    "owner_unverified": 11,
    "workspace_changed": 11,
    "workspace_unusable": 11,
    "path_refused": 11,
    "cancelled": 130,
    "internal_error": 70,
}
"""Exit status of a task's final reason code; the documented contract of `fluzo run`."""


def exit_status(code: str) -> int:
    """Exit status for a reason code; an unlisted code is an internal error (70), never a success."""
    return EXIT_STATUS_BY_CODE.get(code, 70)


def error_of(code: str, message: str, hint: str = "") -> FluzoError:
    """The error for a code that came as a value, with the class of its exit status."""
    status = exit_status(code)
    kind = next((cls for cls in FluzoError.__subclasses__() if cls.exit_status == status), FluzoError)
    return kind(message, code=code, hint=hint)
