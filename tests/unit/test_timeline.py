from fluzo.commands.timeline import Timeline
from fluzo.core import events
from fluzo.core.events import Event, Payload, Scope, event_to_json

AT = "2026-03-01T08:31:22.000000Z"


def told(timeline: Timeline, *payloads: Payload, operation_id: str = "o_1") -> list[str]:
    scope = Scope("s", "t", "a_1", operation_id)
    records = [event_to_json(Event(1, "e", AT, scope, payload)) for payload in payloads]
    return [moment.line() for record in records for moment in timeline.moments(record)]


def test_a_timeline_says_when_who_and_what() -> None:
    lines = told(
        Timeline(),
        events.TaskCreated("fix\nit", {}),
        events.AttemptStarted(1, "coder"),
        events.OperationRequested("run", "execute", "cargo test", "f", 1),
        events.OperationDecided("allow", "grant", "grant", "g_1"),
        events.OperationIntended("run", "cargo test", "g_1"),
        events.OperationEnded(False, "command_failed", "cargo test", {"exit_status": 101, "elapsed_seconds": 1.8}),
        events.AttemptEnded("blocked", "permission_required"),
    )
    assert lines == [
        "2026-03-01 08:31:22  user          asked: fix it",
        "2026-03-01 08:31:22  runtime       attempt 1 began with model coder",
        "2026-03-01 08:31:22  agent         requested run cargo test",
        "2026-03-01 08:31:22  grant         allow  (grant)",
        "2026-03-01 08:31:22  runtime       began run cargo test",
        "2026-03-01 08:31:22  runtime       run cargo test: exit 101   1.8 s",
        "2026-03-01 08:31:22  runtime       attempt blocked  [permission_required]",
    ]


def test_every_kind_of_event_can_be_told() -> None:
    samples: list[Payload] = [
        events.SessionCreated("x"),
        events.SessionRenamed("y", "x"),
        events.YoloChanged(True, "user"),
        events.TaskStateChanged("ready", "running"),
        events.AttemptInterrupted("gone"),
        events.BaselineCaptured("abc", "main", ("x",)),
        events.TurnStarted(1),
        events.MessageRecorded("m", "assistant", 1, 5, 1, True),
        events.ContextAssembled(()),
        events.PermissionRequested("run", "x", {}, "policy_shell"),
        events.PermissionAnswered("once", "user"),
        events.GrantCreated("g", "task", "flag", {"argv": ["make"]}),
        events.GrantConsumed("g"),
        events.GrantEnded("g", "expired"),
        events.OperationRefused("permission_denied", "no"),
        events.OperationMarkedUnknown("x", "lost"),
        events.UsageSettled(1, 2, 0, 0, True),
        events.BudgetExhausted("max_turns", 3, 3),
        events.VerificationStarted((("make",),), "r"),
        events.VerificationEnded("passed", "r", ()),
        events.VerificationWaived("user"),
        events.PlanUpdated(()),
        events.QuestionAsked("which?"),
        events.QuestionAnswered("this"),
        events.InterventionQueued("i", "also"),
        events.InterventionConsumed("i"),
        events.InterventionWithdrawn("i"),
        events.CancelRequested("user"),
        events.WarningRaised("w", "x"),
        events.ContextCompacted("f", "threshold", 26100, 6000, 1, 9, 12, 32768),
        events.LoopNoticed("same_call", "read_file a", 3),
        events.LimitsExtended("max_turns", 30, 60, "user"),
        events.LimitsExtended("max_turns", 60, 30, "user"),
        events.CapacityReset("", 1, "user"),
        events.ConfigurationChanged("v", "user", ({"key": "tui.theme", "old": "default", "new": "high-contrast"},), {}),
        events.ResumeReconciled("a_1", (), ({"text": "run x"},), ()),
    ]
    for sample in samples:
        assert len(told(Timeline(), sample)) == 1, sample
    rest = {"TaskCreated", "AttemptStarted", "AttemptEnded"}
    rest |= {"OperationRequested", "OperationDecided", "OperationIntended", "OperationEnded"}
    assert {type(sample).__name__ for sample in samples} | rest == set(events.PAYLOADS)


def test_an_intent_without_an_outcome_and_an_attempt_without_an_end_are_gaps() -> None:
    timeline = Timeline()
    told(timeline, events.AttemptStarted(1, "coder"), events.OperationIntended("run", "make deploy"))
    assert timeline.gaps(live=False) == [
        "outcome unknown: run make deploy (intended, and no result is recorded)",
        "no end of attempt a_1 is recorded: it was interrupted",
    ]
    assert timeline.gaps(live=True) == ["the task is still running"]


def test_a_whole_record_has_no_gaps() -> None:
    timeline = Timeline()
    told(
        timeline,
        events.AttemptStarted(1, "coder"),
        events.OperationIntended("run", "make"),
        events.OperationEnded(True, "", "make"),
        events.AttemptEnded("completed"),
    )
    assert timeline.gaps(live=False) == []


def test_a_record_of_a_newer_version_is_shown_as_one_that_cannot_be_read() -> None:
    (moment,) = Timeline().moments(
        {"type": "Teleported", "at": AT, "seq": 1, "id": "e", "schema_version": 9, "data": {}}
    )
    assert moment.line() == "2026-03-01 08:31:22  unknown       a record this version cannot read: Teleported"


def test_recorded_text_cannot_act_on_a_terminal() -> None:
    (line,) = told(Timeline(), events.TaskCreated("a\x1b[31m\u202eb", {}))
    assert "<U+001B>[31m<U+202E>b" in line
